"""Componentwise functions of tensors, broadcast by dimension name."""

from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.dims import as_shape, check_tensor, reduced
from meshkeras.ops.recording import RecordedGradient, Recording, keep
from meshkeras.upstream import mtf, tf


def elementwise(tf_fn, xs, name=None, dtype=None):
  """Returns y[i] = tf_fn(x1[i], x2[i], ...) for every position i.

  Any TensorFlow function will do that computes each position by itself:
  an activation, a comparison, a cast, a formula of several. The derivative
  is TensorFlow's.

  Args:
    tf_fn: function of one tf.Tensor per x. A smaller x arrives with
      dimensions of size 1 in front or between, so that it broadcasts; if
      its dimensions are the last of the largest, as it is.
    xs: tensors; the dimensions of one of them include those of all others.
    name: names the operation. Default the function's name.
    dtype: type of the result. Default that of the first x.

  Dimensions:
    xs: each a subset of the largest one's, in any order
    result: those of the largest

  When split:
    any dimension: no traffic. The gradient of an x that lacks a split
      dimension is a sum over its axis, left unreduced.

  Returns: tensor.
  Raises:
    DimensionError: no x has the dimensions of all.
    ArgumentError: an x is no tensor; when lowered, tf_fn returned another
      type or shape than declared.

  Example:
    >>> graph = mtf.Graph()
    >>> mesh = mtf.Mesh(graph, "mesh")
    >>> x = mtf.zeros(mesh, [("batch", 4), ("hidden", 8)])
    >>> bias = mtf.zeros(mesh, [("hidden", 8)])
    >>> elementwise(lambda x, b: tf.nn.relu(x + b), [x, bias]).shape
    Shape[batch=4, hidden=8]
  """
  name = name or _name_of(tf_fn)
  where = "elementwise %r" % name
  xs = [check_tensor(x, where) for x in xs]
  shape = broadcast_shape([x.shape for x in xs], where)
  dtype = tf.as_dtype(dtype or xs[0].dtype)
  return ElementwiseOperation(tf_fn, xs, shape, dtype, name).outputs[0]


class ElementwiseOperation(mtf.Operation):
  """See `elementwise`."""

  def __init__(self, tf_fn, xs, shape, dtype, name):
    super().__init__(xs, name=name)
    self._tf_fn = tf_fn
    self._outputs = [mtf.Tensor(self, shape, dtype)]

  def gradient(self, grad_ys):
    return RecordedGradient(self, grad_ys[0]).input_gradients()

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    y = self.outputs[0]
    shapes = [x.shape for x in self.inputs]
    expected = impl.slice_shape(y.shape)

    def local(unused_rank, *slices):
      result = self._tf_fn(*[
          aligned(x, shape, y.shape) for x, shape in zip(slices, shapes)])
      _check_result(result, y.dtype, expected, self.name)
      return result

    recording = Recording(impl, local)
    keep(lowering, self, recording)
    lowering.set_tensor_lowering(
        y, recording.run(*[reduced(lowering, x) for x in self.inputs]))


def broadcast(x, shape):
  """Returns x repeated along the dimensions of `shape` that it lacks.

  Args:
    x: tensor of any type.
    shape: the result's dims, those of x among them, in any order.

  When split:
    any dimension: no traffic. The gradient is a sum, left unreduced.

  Raises:
    DimensionError: x has a dimension that `shape` lacks.
  """
  shape = as_shape(shape)
  broadcast_shape([shape, x.shape], "broadcast", shape)
  return mtf.broadcast(x, shape)


def broadcast_shape(shapes, where, largest=None):
  """Returns the shape that has the dimensions of all `shapes`.

  Raises:
    DimensionError: none of them has.
  """
  largest = largest or max(shapes, key=lambda shape: shape.ndims)
  for shape in shapes:
    missing = [dim for dim in shape.dims if dim not in largest.dims]
    if missing:
      raise DimensionError(
          "%s: tensors [%s] and [%s] given; the larger one must have every "
          "dimension of the other, and lacks %s. Rename a dimension, or "
          "broadcast one tensor to the dimensions of both first."
          % (where, format_dims(largest.dims), format_dims(shape.dims),
             format_dims(missing)))
  return largest


def aligned(x, shape, target):
  """Returns a slice ready for TensorFlow's broadcasting against another.

  Args:
    x: slice of a tensor of `shape`.
    shape: mtf.Shape whose dimensions are some of `target`.
    target: mtf.Shape of the tensor to be broadcast against.

  Returns: x, transposed to the order of `target` and with sizes 1 where
    it lacks a dimension; leading ones are left out.
  """
  order = [dim for dim in target.dims if dim in shape.dims]
  permutation = [shape.dims.index(dim) for dim in order]
  if permutation != sorted(permutation):
    x = tf.transpose(x, permutation)
  if order == target.dims[target.ndims - len(order):]:
    return x
  sizes = iter(x.shape.as_list())
  return tf.reshape(
      x, [next(sizes) if dim in shape.dims else 1 for dim in target.dims])


def _check_result(result, dtype, slice_shape, name):
  if result.dtype.base_dtype != dtype:
    raise ArgumentError(
        "elementwise %r: the function returned %s, declared is %s. Give "
        "dtype=%r." % (name, result.dtype.base_dtype.name, dtype.name,
                       result.dtype.base_dtype.name))
  if result.shape.as_list() != slice_shape:
    raise ArgumentError(
        "elementwise %r: the function returned the shape %s for slices of "
        "%s. Use a function that keeps positions."
        % (name, tuple(result.shape.as_list()), tuple(slice_shape)))


def _name_of(tf_fn):
  name = getattr(tf_fn, "__name__", "")
  return name if name.isidentifier() else "elementwise"
