"""Dense: every output sees every input."""

from meshkeras import ops
from meshkeras.errors import DimensionError
from meshkeras.layers import activations, initializers
from meshkeras.layers.arguments import whole_number
from meshkeras.layers.layer import Layer, as_float, summed_dim
from meshkeras.mesh.dimension import format_dims


class Dense(Layer):
  """y[..., out] = activation(sum over in of x[..., in] kernel[in, out] + bias).

  Args:
    units: size of the output dim.
    activation: name or function; None for none.
    use_bias: whether a bias is added.
    dim: name of the output dim; default the layer's name. It may be that of
      the input dim, which is then renamed to "<name>_in".
    kernel_initializer: name or object.
    bias_initializer: name or object.

  Dimensions:
    x: [batch, ..., in]
    kernel: [in, out], bias: [out]
    y: [batch, ..., out]

  When split:
    out: no traffic; the gradient of x is a sum over its axis.
    in: y is a sum over its axis, y.size / (other axes) per process.
    in and out of one name: x is gathered first, as "<name>_in" is not split.

  Raises:
    ArgumentError: units is no whole number of at least 1.
    DimensionError: x has no dim but the batch; another dim of x has the
      output's name.

  Example:
    >>> Dense(10, dim="classes").get_config()["units"]
    10
  """

  OPTIONS = {"kernel_initializer": "glorot_uniform",
             "bias_initializer": "zeros"}

  def __init__(self, units, activation=None, use_bias=True, dim=None,
               **options):
    super().__init__(**options)
    self.units = whole_number(self.label, "units", units)
    self.activation = activations.get(activation)
    self.use_bias = use_bias
    self.set_dim(dim)
    self.kernel_initializer = initializers.get(self.kernel_initializer)
    self.bias_initializer = initializers.get(self.bias_initializer)

  def build(self, input_shape):
    if len(input_shape.dims) < 2:
      raise DimensionError(
          "%s: input [%s] given; accepted is [batch, ..., in]. Give it at "
          "least one dim after the batch."
          % (self.label, format_dims(input_shape.dims)))
    out = self.new_dim(self.units, input_shape.dims[:-1])
    self._in = summed_dim(input_shape.dims[-1], out)
    self._out = out
    self.kernel = self.add_weight(
        "kernel", [self._in, out], self.kernel_initializer)
    if self.use_bias:
      self.bias = self.add_weight("bias", [out], self.bias_initializer)

  def call(self, x, training=False):
    x = ops.rename(as_float(x), x.shape.dims[-1], self._in.name)
    y = ops.matmul(x, self.kernel.read(), [self._in], [self._out])
    if self.use_bias:
      y = ops.bias_add(y, self.bias.read())
    return self.activation(y)
