"""BatchNormalization: Ioffe and Szegedy (2015)."""

from meshkeras import ops
from meshkeras.layers import context, initializers
from meshkeras.layers.arguments import fraction, positive
from meshkeras.layers.layer import Layer, as_float
from meshkeras.layers.normalizing import dims_at, normalized
from meshkeras.upstream import mtf


class BatchNormalization(Layer):
  """y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, per channel.

  In training mean and variance are those of the global batch, pad rows
  left out, whatever the layout; running means of both are kept. Elsewhere,
  and if the layer is not trainable, the running means are used.

  Args:
    axis: the dim that keeps its own statistics, counted as in Keras with
      the batch as 0. Default -1, the channels.
    momentum: from 0 to 1, the share of a running mean that stays.
    epsilon: added to the variance.
    center: whether there is a beta. Default True.
    scale: whether there is a gamma. Default True.
    beta_initializer: name or object. Default "zeros".
    gamma_initializer: name or object. Default "ones".
    moving_mean_initializer: name or object. Default "zeros".
    moving_variance_initializer: name or object. Default "ones".

  Dimensions:
    x, y: [batch, ..., channels]
    gamma, beta, moving_mean, moving_variance: [channels]

  When split:
    batch, or any dim but channels: in training one allgather of 3 channels
      over its axis, one reduction of 2 channels in the gradient.
    channels: no traffic.

  Raises:
    ArgumentError: a number out of range.
    DimensionError: x has no dim at `axis`, or it is the batch.

  Example:
    >>> BatchNormalization(momentum=0.9).get_config()["momentum"]
    0.9
  """

  OPTIONS = {"center": True, "scale": True,
             "beta_initializer": "zeros", "gamma_initializer": "ones",
             "moving_mean_initializer": "zeros",
             "moving_variance_initializer": "ones"}

  def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, **options):
    super().__init__(**options)
    self.axis = axis
    self.momentum = fraction(self.label, "momentum", momentum)
    self.epsilon = positive(self.label, "epsilon", epsilon)
    for name in ("beta", "gamma", "moving_mean", "moving_variance"):
      name += "_initializer"
      setattr(self, name, initializers.get(getattr(self, name)))

  def build(self, input_shape):
    channels = dims_at(self, self.axis, input_shape)
    self._reduced = [dim for dim in input_shape.dims if dim not in channels]
    self.gamma = self.beta = None
    if self.scale:
      self.gamma = self.add_weight("gamma", channels, self.gamma_initializer)
    if self.center:
      self.beta = self.add_weight("beta", channels, self.beta_initializer)
    self.moving_mean = self.add_weight(
        "moving_mean", channels, self.moving_mean_initializer,
        trainable=False)
    self.moving_variance = self.add_weight(
        "moving_variance", channels, self.moving_variance_initializer,
        trainable=False)

  def call(self, x, training=False):
    x = as_float(x)
    if not (training and self.trainable):
      return normalized(
          x, self.moving_mean.read(), self.moving_variance.read(), self)
    mean, variance = ops.moments(
        x, [dim.name for dim in self._reduced],
        weights=context.current().row_mask)
    self._follow(self.moving_mean, mean)
    self._follow(self.moving_variance, variance)
    return normalized(x, mean, variance, self)

  def _follow(self, moving, value):
    value = mtf.stop_gradient(mtf.cast(value, moving.dtype))
    moving.assign(
        moving.read() * self.momentum + value * (1.0 - self.momentum))
