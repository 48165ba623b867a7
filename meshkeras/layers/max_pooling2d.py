"""MaxPooling2D: the largest value of each window."""

from meshkeras import ops
from meshkeras.layers.pooling import Pooling2D


class MaxPooling2D(Pooling2D):
  """y[r, c] = max of x[window at r, c].

  Args:
    pool_size: rows and columns of the window; one number for both.
    strides: step of the window, likewise; default pool_size.
    padding: "valid", or "same" for ceil(size / stride) positions.

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
    >>> MaxPooling2D(2).get_config()["strides"]
    [2, 2]
  """

  pool = staticmethod(ops.max_pool2d)
