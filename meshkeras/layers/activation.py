"""Activation: an activation function as a layer."""

from meshkeras.layers import activations
from meshkeras.layers.layer import Layer


class Activation(Layer):
  """y = activation(x).

  Args:
    activation: name, such as "relu", or a function of an mtf.Tensor.

  Dimensions:
    x, y: [batch, ...], the same

  When split:
    last dim: two small reductions for softmax, no traffic for the others.

  Example:
    >>> Activation("relu").get_config()["activation"]
    'relu'
  """

  def __init__(self, activation, **options):
    super().__init__(**options)
    self.activation = activations.get(activation)

  def call(self, x, training=False):
    return self.activation(x)
