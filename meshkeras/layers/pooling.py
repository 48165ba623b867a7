"""What the pooling layers share."""

from meshkeras.errors import DimensionError
from meshkeras.layers.arguments import choice, pair
from meshkeras.layers.layer import Layer, as_float
from meshkeras.mesh.dimension import format_dims


class Pooling2D(Layer):
  """Base of the layers that pool windows of images.

  A subclass sets `pool` to a function
  (x, spatial_dims, pool_size, strides, padding) -> y.

  Args:
    pool_size: rows and columns of the window; one number for both.
    strides: step of the window, likewise; default pool_size.
    padding: "valid", or "same" for ceil(size / stride) positions.

  Raises:
    ArgumentError: a number is below 1, or padding is another word.
    DimensionError: x is not [batch, rows, columns, channels], or is smaller
      than the window.
  """

  pool = None

  def __init__(self, pool_size=(2, 2), strides=None, padding="valid",
               **options):
    super().__init__(**options)
    self.pool_size = pair(self.label, "pool_size", pool_size)
    self.strides = self.pool_size if strides is None else pair(
        self.label, "strides", strides)
    self.padding = choice(self.label, "padding", padding, ("valid", "same"))

  def build(self, input_shape):
    self.require_ndims(input_shape, 4, "[batch, rows, columns, channels]")
    check_window(self, input_shape, self.pool_size)

  def call(self, x, training=False):
    return type(self).pool(
        as_float(x), x.shape.dims[1:3], self.pool_size, self.strides,
        self.padding)


def check_window(layer, input_shape, window):
  """Checks that an unpadded window fits into the image.

  Args:
    layer: has `label` and `padding`.
    input_shape: mtf.Shape [batch, rows, columns, channels].
    window: (rows, columns).

  Raises:
    DimensionError: it does not.
  """
  spatial_dims = input_shape.dims[1:3]
  if layer.padding == "valid" and any(
      dim.size < size for dim, size in zip(spatial_dims, window)):
    raise DimensionError(
        "%s: a window of %d x %d given for an image [%s]; with padding "
        "'valid' it must fit in. Make it smaller, or use padding='same'."
        % (layer.label, window[0], window[1], format_dims(spatial_dims)))
