"""LayerNormalization: Ba, Kiros and Hinton (2016)."""

from meshkeras import ops
from meshkeras.layers import initializers
from meshkeras.layers.arguments import positive
from meshkeras.layers.layer import Layer, as_float
from meshkeras.layers.normalizing import dims_at, normalized


class LayerNormalization(Layer):
  """y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, per row.

  mean and variance are over the normalised dims of each position alone.

  Args:
    axis: which dims are normalised, counted as in Keras with the batch as
      0; a number or a list. Default -1, the last.
    epsilon: added to the variance.
    center: whether there is a beta.
    scale: whether there is a gamma.
    beta_initializer: name or object. Default "zeros".
    gamma_initializer: name or object. Default "ones".

  Dimensions:
    x, y: [batch, ..., features]
    gamma, beta: [features]

  When split:
    features: one allgather of 3 x.size / features over its axis, one
      reduction of two thirds of that in the gradient.
    another dim: no traffic; the gradients of gamma and beta are sums.

  Raises:
    ArgumentError: epsilon is not above 0.
    DimensionError: x has no dim at `axis`, or it is the batch.

  Example:
    >>> LayerNormalization().get_config()["epsilon"]
    0.001
  """

  OPTIONS = {"beta_initializer": "zeros", "gamma_initializer": "ones"}

  def __init__(self, axis=-1, epsilon=1e-3, center=True, scale=True,
               **options):
    super().__init__(**options)
    self.axis = axis
    self.epsilon = positive(self.label, "epsilon", epsilon)
    self.center = center
    self.scale = scale
    self.beta_initializer = initializers.get(self.beta_initializer)
    self.gamma_initializer = initializers.get(self.gamma_initializer)

  def build(self, input_shape):
    self._normalized = dims_at(self, self.axis, input_shape)
    self.gamma = self.beta = None
    if self.scale:
      self.gamma = self.add_weight(
          "gamma", self._normalized, self.gamma_initializer)
    if self.center:
      self.beta = self.add_weight(
          "beta", self._normalized, self.beta_initializer)

  def call(self, x, training=False):
    x = as_float(x)
    mean, variance = ops.moments(x, self._normalized)
    return normalized(x, mean, variance, self)
