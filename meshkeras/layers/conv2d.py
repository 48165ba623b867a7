"""Conv2D: a filter slides over images."""

from meshkeras import ops
from meshkeras.layers import activations, initializers
from meshkeras.layers.arguments import choice, pair, whole_number
from meshkeras.layers.layer import Layer, as_float, summed_dim
from meshkeras.layers.pooling import check_window
from meshkeras.upstream import mtf


class Conv2D(Layer):
  """y[r, c, out] = activation(sum of x[window at r, c, in] kernel + bias).

  The rows and columns keep their names, so that a layout splits an image
  from end to end.

  Args:
    filters: size of the output dim.
    kernel_size: rows and columns of the filter; one number for both.
    strides: step of the window, likewise.
    padding: "valid", or "same" for ceil(size / stride) positions.
    activation: name or function; None for none.
    use_bias: whether a bias is added. Default True.
    dim: name of the output dim; default the layer's name. It may be that of
      the input's channels, which are then renamed to "<name>_in".
    kernel_initializer: name or object. Default "glorot_uniform".
    bias_initializer: name or object. Default "zeros".

  Dimensions:
    x: [batch, rows, cols, in]
    kernel: [window rows, window cols, in, out], bias: [out]
    y: [batch, rows, cols, out]; rows and cols of the new sizes

  When split:
    rows, cols: the borders of a slice go to the neighbour, (window - 1)
      rows or columns per process forward, as many back.
    out: no traffic; the gradient of x is a sum over its axis.
    in: y is a sum over its axis.

  Raises:
    ArgumentError: a number is below 1, or padding is another word.
    DimensionError: x has another number of dims, or is smaller than the
      window; rows or cols have the output's name.

  Example:
    >>> Conv2D(16, 3, dim="maps").get_config()["kernel_size"]
    [3, 3]
  """

  OPTIONS = {"activation": None, "use_bias": True, "dim": None,
             "kernel_initializer": "glorot_uniform",
             "bias_initializer": "zeros"}

  def __init__(self, filters, kernel_size, strides=(1, 1), padding="valid",
               **options):
    super().__init__(**options)
    self.filters = whole_number(self.label, "filters", filters)
    self.kernel_size = pair(self.label, "kernel_size", kernel_size)
    self.strides = pair(self.label, "strides", strides)
    self.padding = choice(self.label, "padding", padding, ("valid", "same"))
    self.set_dim(self.dim)
    self.activation = activations.get(self.activation)
    self.kernel_initializer = initializers.get(self.kernel_initializer)
    self.bias_initializer = initializers.get(self.bias_initializer)

  def build(self, input_shape):
    self.require_ndims(input_shape, 4, "[batch, rows, columns, channels]")
    check_window(self, input_shape, self.kernel_size)
    out = self.new_dim(self.filters, input_shape.dims[:-1])
    self._in = summed_dim(input_shape.dims[-1], out)
    self._out = out
    window = [mtf.Dimension("%s_kernel_%d" % (self.name, i), size)
              for i, size in enumerate(self.kernel_size)]
    self.kernel = self.add_weight(
        "kernel", window + [self._in, out], self.kernel_initializer)
    if self.use_bias:
      self.bias = self.add_weight("bias", [out], self.bias_initializer)

  def call(self, x, training=False):
    x = ops.rename(as_float(x), x.shape.dims[-1], self._in.name)
    y = ops.conv2d(x, self.kernel.read(), x.shape.dims[1:3], self.strides,
                   self.padding, self._in, self._out)
    if self.use_bias:
      y = ops.bias_add(y, self.bias.read())
    return self.activation(y)
