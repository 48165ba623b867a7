"""Flatten: all dims but the batch become one."""

import math

from meshkeras import ops
from meshkeras.layers.layer import Layer
from meshkeras.upstream import mtf


class Flatten(Layer):
  """y[batch, out] = x[batch, ...], row by row.

  Args:
    dim: name of the output dim; default the layer's name.

  Dimensions:
    x: [batch, a, b, ...]
    y: [batch, out], out = a * b * ...

  When split:
    a and out over one axis: no traffic. Other dims: an alltoall, or a
      gather of x where that cannot be done.

  Raises:
    DimensionError: the output dim would be called "batch".

  Example:
    >>> Flatten(dim="pixels").get_config()["dim"]
    'pixels'
  """

  def __init__(self, dim=None, **options):
    super().__init__(**options)
    self.set_dim(dim)

  def build(self, input_shape):
    size = math.prod(dim.size for dim in input_shape.dims[1:])
    self._out = self.new_dim(size, input_shape.dims[:1])

  def call(self, x, training=False):
    return ops.reshape(x, mtf.Shape([x.shape.dims[0], self._out]))
