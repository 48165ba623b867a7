"""GlobalAveragePooling2D: the mean of each channel."""

from meshkeras.layers.layer import Layer, as_float
from meshkeras.upstream import mtf


class GlobalAveragePooling2D(Layer):
  """y[channel] = mean of x over rows and columns.

  Args:
    keepdims: whether rows and columns stay, with size 1.

  Dimensions:
    x: [batch, rows, cols, channels]
    y: [batch, channels]; [batch, rows=1, cols=1, channels] with keepdims

  When split:
    rows, cols: y is a sum over their axes, y.size per process. With
      keepdims they cannot be split, as 1 is not divisible.
    channels: no traffic.

  Raises:
    DimensionError: x has another number of dims.

  Example:
    >>> GlobalAveragePooling2D().get_config()["keepdims"]
    False
  """

  def __init__(self, keepdims=False, **options):
    super().__init__(**options)
    self.keepdims = keepdims

  def build(self, input_shape):
    self.require_ndims(input_shape, 4, "[batch, rows, columns, channels]")

  def call(self, x, training=False):
    batch, rows, cols, channels = x.shape.dims
    y = mtf.reduce_mean(
        as_float(x), output_shape=mtf.Shape([batch, channels]))
    if self.keepdims:
      ones = [mtf.Dimension(dim.name, 1) for dim in (rows, cols)]
      y = mtf.reshape(y, mtf.Shape([batch] + ones + [channels]))
    return y
