"""AveragePooling2D: the mean of each window."""

from meshkeras import ops
from meshkeras.layers.pooling import Pooling2D


class AveragePooling2D(Pooling2D):
  """y[r, c] = mean of x[window at r, c], over its real cells.

  Args:
    pool_size: rows and columns of the window; one number for both.
    strides: step of the window, likewise; default pool_size.
    padding: "valid", or "same" for ceil(size / stride) positions; cells
      outside the image are not counted.

  Dimensions:
    x: [batch, rows, cols, channels]
    y: the same; rows and cols of the new sizes

  When split:
    rows, cols: what a window needs of its neighbour; no traffic if windows
      do not reach over the edge of a slice.
    channels: no traffic.

  Raises:
    ArgumentError: a number is below 1, or padding is another word.
    DimensionError: x has another number of dims, or is smaller than the
      window.

  Example:
    >>> AveragePooling2D((2, 4)).get_config()["pool_size"]
    [2, 4]
  """

  pool = staticmethod(ops.avg_pool2d)
