"""What a model is given: sizes, dimension names and type of one row."""

from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.layers.arguments import whole_number
from meshkeras.layers.configured import Configured
from meshkeras.layers.layer import BATCH
from meshkeras.mesh.dimension import check_name
from meshkeras.upstream import mtf, tf


class Input(Configured):
  """Sizes and names of the dims of one row, without the batch.

  It is a description, not a layer: it has no weights and computes nothing.

  Args:
    shape: whole numbers; a single number is a row of one dim.
    dims: one name per size, for the layout. By default "<name>_0",
      "<name>_1", ...
    dtype: type of the values as layers see them.
    name: "input" by default.

  Dimensions:
    the model's input: [batch, dims...]

  Raises:
    ArgumentError: a size is no whole number; an unknown type; a keyword it
      does not accept.
    DimensionError: as many names as sizes are needed, all different, none
      "batch".

  Example:
    >>> Input((8, 8), dims=("rows", "cols")).batched(128)
    Shape[batch=128, rows=8, cols=8]
  """

  def __init__(self, shape, dims=None, dtype="float32", name=None, **options):
    self.take_options(options)
    self.name = name or "input"
    self.label = "Input %r" % self.name
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    self.shape = tuple(
        whole_number(self.label, "shape", size) for size in sizes)
    if isinstance(dims, str):
      dims = (dims,)
    if dims is None:
      dims = ["%s_%d" % (self.name, i) for i in range(len(self.shape))]
    self.dims = tuple(check_name(dim, self.label) for dim in dims)
    self._check_dims()
    self.dtype = self._dtype_name(dtype)

  def batched(self, batch_size):
    """Returns the mtf.Shape of `batch_size` rows."""
    return mtf.Shape(
        [mtf.Dimension(BATCH, batch_size)]
        + [mtf.Dimension(*dim) for dim in zip(self.dims, self.shape)])

  def _check_dims(self):
    if len(self.dims) != len(self.shape):
      raise DimensionError(
          "%s: shape %s and dims %s given, %d sizes and %d names; each size "
          "has a name, the batch not counted. Make them equally many."
          % (self.label, self.shape, self.dims, len(self.shape),
             len(self.dims)))
    if len(set(self.dims)) < len(self.dims) or BATCH in self.dims:
      raise DimensionError(
          "%s: dims %s given; accepted are names that differ, none of them "
          "%r, which is added in front. Rename one."
          % (self.label, self.dims, BATCH))

  def _dtype_name(self, dtype):
    try:
      return tf.as_dtype(dtype).name
    except TypeError:
      raise ArgumentError(
          "%s: dtype=%r given; accepted are names of types such as "
          "'float32' or 'int32'. Give one of them."
          % (self.label, dtype)) from None
