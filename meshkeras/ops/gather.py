"""Rows of a table by number, without one-hot matrices."""

from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.dims import (
  axis_number,
  check_tensor,
  find_dim,
  mesh_axis_of,
  partial_axes,
  reduced,
  sum_over,
)
from meshkeras.ops.recording import no_second_derivative
from meshkeras.upstream import mtf, tf


def gather(table, ids, vocabulary_dim):
  """Returns y[i, ...] = table[ids[i], ...].

  Each processor looks up the ids that fall into its part of the table; the
  gradient adds the rows of dy into its part.

  Args:
    table: tensor of floating-point type.
    ids: tensor of int32 or int64, in [0, vocabulary). Others give zeros
      where the vocabulary is split and TensorFlow's error elsewhere: check
      them before.
    vocabulary_dim: dimension of the table that the ids count.

  Dimensions:
    table: [vocabulary, ...]    (the vocabulary may stand elsewhere)
    ids: [...]
    result: [dims of ids, other dims of table]

  When split:
    vocabulary: the result is a sum over its axis, left unreduced. If a
      dimension of ids is split over the same axis: an allgather of the ids,
      a reduce-scatter of the result, an allgather of dy in the gradient.
    another dimension of table or ids: no traffic; the gradient of the table
      is a sum over the axes of ids, left unreduced.

  Raises:
    DimensionError: the table lacks the dimension, or ids and table share
      one.
    ArgumentError: the ids are no integers.

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> table = mtf.zeros(mesh, [("vocabulary", 100), ("hidden", 8)])
    >>> ids = mtf.zeros(mesh, [("batch", 4), ("length", 6)], tf.int32)
    >>> gather(table, ids, "vocabulary").shape
    Shape[batch=4, length=6, hidden=8]
  """
  check_tensor(table, "gather: table")
  check_tensor(ids, "gather: ids")
  vocabulary_dim = find_dim(table, vocabulary_dim, "gather: table")
  if ids.dtype not in (tf.int32, tf.int64):
    raise ArgumentError(
        "gather: ids of type %s given; int32 and int64 are accepted. Cast "
        "them." % ids.dtype.name)
  shared = [dim for dim in table.shape.dims
            if dim.name in ids.shape.dimension_names]
  if shared:
    raise DimensionError(
        "gather: table [%s] and ids [%s] share [%s]; the result would have "
        "it twice. Rename one."
        % (format_dims(table.shape.dims), format_dims(ids.shape.dims),
           format_dims(shared)))
  return GatherOperation(table, ids, vocabulary_dim).outputs[0]


class GatherOperation(mtf.Operation):
  """See `gather`."""

  def __init__(self, table, ids, vocabulary_dim):
    super().__init__([table, ids], name="gather")
    self.vocabulary_dim = vocabulary_dim
    others = [dim for dim in table.shape.dims if dim != vocabulary_dim]
    self._outputs = [
        mtf.Tensor(self, mtf.Shape(ids.shape.dims + others), table.dtype)]

  def gradient(self, grad_ys):
    return [GatherGradientOperation(self, grad_ys[0]).outputs[0], None]

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    table, ids = self.inputs
    y = self.outputs[0]
    axis = axis_number(table, self.vocabulary_dim)
    mesh_axis = mesh_axis_of(impl, self.vocabulary_dim)
    shared_axis = ids_axis(impl, ids, mesh_axis)
    ids_laid_out = whole(impl, reduced(lowering, ids), mesh_axis, shared_axis)

    def local(rank, rows, numbers):
      if axis:
        rows = vocabulary_first(rows, axis)
      if mesh_axis is None:
        return tf.gather(rows, numbers)
      numbers, mine = local_numbers(impl, table.shape, axis, rank, numbers)
      found = tf.gather(rows, tf.where(mine, numbers, tf.zeros_like(numbers)))
      for _ in range(len(rows.shape) - 1):
        mine = tf.expand_dims(mine, -1)
      # Not a product with a mask: 0 * inf would be NaN.
      return tf.where(tf.broadcast_to(mine, found.shape), found,
                      tf.zeros_like(found))

    laid_out = impl.slicewise_by_rank(
        local, reduced(lowering, table), ids_laid_out)
    if shared_axis is None:
      axes = partial_axes(impl, [table.shape, ids.shape], y.shape)
      laid_out = sum_over(impl, laid_out, axes)
    else:
      laid_out = impl.allsplit(
          sum_over(impl, laid_out, [mesh_axis]), mesh_axis, shared_axis)
    lowering.set_tensor_lowering(y, laid_out)


class GatherGradientOperation(mtf.Operation):
  """The gradient of `gather` for the table."""

  def __init__(self, forward, dy):
    super().__init__([forward.inputs[1], dy], name="gather_gradient")
    self._vocabulary_dim = forward.vocabulary_dim
    table = forward.inputs[0]
    self._outputs = [mtf.Tensor(self, table.shape, table.dtype)]

  def gradient(self, grad_ys):
    raise no_second_derivative(self.name)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    ids, dy = self.inputs
    dtable = self.outputs[0]
    axis = axis_number(dtable, self._vocabulary_dim)
    mesh_axis = mesh_axis_of(impl, self._vocabulary_dim)
    shared_axis = ids_axis(impl, ids, mesh_axis)
    num_rows = impl.slice_shape(dtable.shape)[axis]

    def local(rank, numbers, gradient):
      if mesh_axis is not None:
        numbers, mine = local_numbers(
            impl, dtable.shape, axis, rank, numbers)
        # A negative segment is left out of the sum.
        numbers = tf.where(mine, numbers, -tf.ones_like(numbers))
      wide = tf.cast(gradient, _sum_type(gradient.dtype))
      total = tf.math.unsorted_segment_sum(wide, numbers, num_rows)
      total = tf.cast(total, gradient.dtype)
      return vocabulary_back(total, axis) if axis else total

    laid_out = impl.slicewise_by_rank(
        local, whole(impl, reduced(lowering, ids), mesh_axis, shared_axis),
        whole(impl, reduced(lowering, dy), mesh_axis, shared_axis))
    axes = partial_axes(impl, [ids.shape, dy.shape], dtable.shape)
    lowering.set_tensor_lowering(dtable, sum_over(impl, laid_out, axes))


def ids_axis(impl, ids, mesh_axis):
  """Returns the position of the dimension of ids on `mesh_axis`, or None."""
  for position, dim in enumerate(ids.shape.dims):
    if mesh_axis is not None and mesh_axis_of(impl, dim) == mesh_axis:
      return position
  return None


def whole(impl, laid_out, mesh_axis, position):
  """Returns a tensor gathered along `position`, if that is not None."""
  if position is None:
    return laid_out
  return impl.allconcat(laid_out, mesh_axis, position)


def local_numbers(impl, shape, axis, rank, numbers):
  """Returns (numbers within this rank's part, whether they fall into it).

  Args:
    impl: mesh implementation.
    shape: the table's mtf.Shape.
    axis: position of the counted dimension in it.
    rank: processor.
    numbers: positions in the full dimension.
  """
  begin, end = impl.box(shape, rank)[axis]
  mine = tf.logical_and(numbers >= begin, numbers < end)
  return numbers - begin, mine


def vocabulary_first(rows, axis):
  """Returns rows with dimension `axis` moved to the front."""
  ndims = len(rows.shape)
  return tf.transpose(rows, [axis] + [i for i in range(ndims) if i != axis])


def vocabulary_back(rows, axis):
  """Undoes `vocabulary_first`."""
  ndims = len(rows.shape)
  return tf.transpose(
      rows, list(range(1, axis + 1)) + [0] + list(range(axis + 1, ndims)))


def _sum_type(dtype):
  return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype
