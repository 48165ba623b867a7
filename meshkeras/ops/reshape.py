"""Reshaping and renaming at any layout."""

from typing import NamedTuple, Optional

from meshkeras.errors import DimensionError, InternalError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.dims import as_shape, find_dim, mesh_axis_of
from meshkeras.upstream import mtf, tf


def reshape(x, new_shape):
  """Returns x with the same values, row by row, in other dimensions.

  Free where old and new layout cut the values alike; elsewhere it moves
  what it must.

  Args:
    x: tensor.
    new_shape: mtf.Shape or ((name, size), ...), of the same total size.

  When split:
    the first dimension of a merge or of a cut ([rows, cols] and [pixels]
      with rows and pixels on one axis): no traffic.
    a dimension moves to another axis position: alltoall, (n - 1) / n of
      the slice, if the sizes are divisible.
    otherwise: an allgather over the old axis, n - 1 slices, then a local
      cut.
    The gradient does the reverse, and cuts a sum that is not reduced yet by
      one reduce-scatter.

  Raises:
    DimensionError: the sizes differ.

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> x = mtf.zeros(mesh, [("batch", 4), ("rows", 8), ("cols", 8)])
    >>> reshape(x, [("batch", 4), ("pixels", 64)]).shape
    Shape[batch=4, pixels=64]
  """
  new_shape = as_shape(new_shape)
  if x.shape == new_shape:
    return x
  if x.shape.size != new_shape.size:
    raise DimensionError(
        "reshape: tensor [%s] has %d elements, [%s] has %d. Give dimensions "
        "with an equal product."
        % (format_dims(x.shape.dims), x.shape.size,
           format_dims(new_shape.dims), new_shape.size))
  return ReshapeOperation(x, new_shape).outputs[0]


def rename(x, old, new):
  """Returns x with dimension `old` called `new`.

  Args:
    x: tensor.
    old: Dimension or name.
    new: name.

  When split:
    old and new on one axis: no traffic. On two, or one of them on none: as
      `reshape`.

  Raises:
    DimensionError: x has no `old`, or has a `new` already.
  """
  old = find_dim(x, old, "rename to %r" % new)
  if new != old.name and new in x.shape.dimension_names:
    raise DimensionError(
        "rename: %r to %r asked for; the tensor [%s] has a dimension of "
        "that name. Choose another." % (old.name, new,
                                        format_dims(x.shape.dims)))
  return reshape(x, [(new if dim == old else dim.name, dim.size)
                     for dim in x.shape.dims])


class ReshapeOperation(mtf.Operation):
  """See `reshape`."""

  def __init__(self, x, new_shape):
    super().__init__([x], name="reshape")
    self._outputs = [mtf.Tensor(self, new_shape, x.dtype)]

  def gradient(self, grad_ys):
    return [reshape(grad_ys[0], self.inputs[0].shape)]

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    y = self.outputs[0]
    old = _split_shape(impl, self.inputs[0].shape)
    new = _split_shape(impl, y.shape)
    axis_sizes = [axis.size for axis in impl.shape]
    middle = refine(old, new, axis_sizes)
    moves, after = plan_moves(middle, new, axis_sizes)
    laid_out = lowering.tensors[self.inputs[0]]
    if middle != old:
      laid_out = _reshape_slices(impl, laid_out, [
          size // (1 if axis is None else axis_sizes[axis])
          for size, axis in middle])
    for move in moves:
      laid_out = _apply(impl, laid_out, move)
    slice_shape = impl.slice_shape(y.shape)
    for move in after:
      slice_shape[move.split_axis] *= axis_sizes[move.mesh_axis]
    laid_out = _reshape_slices(impl, laid_out, slice_shape)
    for move in after:
      laid_out = _apply(impl, laid_out, move)
    lowering.set_tensor_lowering(y, laid_out)


class Move(NamedTuple):
  """One collective or cut: both axes an alltoall, one of them an allconcat
  (concat_axis) or an allsplit (split_axis)."""

  mesh_axis: int
  split_axis: Optional[int]
  concat_axis: Optional[int]


def refine(old, new, axis_sizes):
  """Returns the shape `old` with dimensions cut where those of `new` begin.

  Each processor can do it by itself; the pieces are then moved one by one.
  A cut that would leave less than the split part in front is left out.

  Args:
    old, new, axis_sizes: as for `plan_moves`.

  Example:
    >>> refine([(24, 0)], [(4, None), (6, 0)], [2])
    [(4, 0), (6, None)]
  """
  refined, begin = [], 1
  for size, axis in old:
    end, ways = begin * size, 1 if axis is None else axis_sizes[axis]
    for cut in sorted(_begins(new)):
      inside = begin < cut < end and cut % begin == 0 and end % cut == 0
      if inside and (cut // begin) % ways == 0:
        refined.append((cut // begin, axis))
        begin, axis, ways = cut, None, 1
    refined.append((end // begin, axis))
    begin = end
  return refined


def plan_moves(old, new, axis_sizes):
  """Returns what to do before and after the local reshape.

  A mesh axis that splits a dimension with the same product of sizes before
  it, in both shapes, cuts the values alike: nothing to do. Every other axis
  must have left its old dimension before the reshape, and be on its new one
  after it.

  Args:
    old: [(size, mesh axis or None), ...], the shape as it is split.
    new: the same for the result.
    axis_sizes: processors per mesh axis.

  Returns: two lists of Moves; the second holds allsplits only, of new
    dimensions.

  Example:
    >>> plan_moves([(4, None), (6, 0)], [(24, 0)], [2])[0]
    [Move(mesh_axis=0, split_axis=0, concat_axis=1)]
    >>> plan_moves([(4, 0), (6, None)], [(24, 0)], [2])
    ([], [])
  """
  old_places, new_places = _places(old), _places(new)
  where = [axis for _, axis in old]
  pending = [axis for axis in range(len(axis_sizes))
             if old_places.get(axis, (None,))[0]
             != new_places.get(axis, (None,))[0]]
  begins = _begins(old)
  moves = []
  while pending:
    move = _next_move(
        pending, where, [size for size, _ in old], axis_sizes,
        {axis: begins.get(new_places[axis][0])
         for axis in pending if axis in new_places})
    if move is None:
      break
    moves.append(move)
    if move.concat_axis is not None:
      where[move.concat_axis] = None
    if move.split_axis is not None:
      where[move.split_axis] = move.mesh_axis
    if move.split_axis is not None or move.mesh_axis not in new_places:
      pending.remove(move.mesh_axis)
  return moves, [Move(axis, new_places[axis][1], None) for axis in pending]


def _next_move(pending, where, sizes, axis_sizes, targets):
  """Returns the cheapest useful Move, or None: a cut, then an alltoall,
  then an allgather."""
  exchange = gather = None
  for axis in pending:
    source = where.index(axis) if axis in where else None
    target = targets.get(axis)
    free = (target is not None and where[target] is None
            and sizes[target] % axis_sizes[axis] == 0)
    if free and source is None:
      return Move(axis, target, None)
    if free and exchange is None:
      exchange = Move(axis, target, source)
    if source is not None and gather is None:
      gather = Move(axis, None, source)
  return exchange or gather


def _begins(shape):
  """Returns {product of the sizes before a dimension: its position}."""
  begins, product = {}, 1
  for position, (size, _) in enumerate(shape):
    # Of several with one product the last is kept: the others have size 1
    # and cannot be split.
    begins[product] = position
    product *= size
  return begins


def _places(shape):
  """Returns {mesh axis: (product of the sizes before, position)}."""
  places, product = {}, 1
  for position, (size, axis) in enumerate(shape):
    if axis is not None:
      places[axis] = (product, position)
    product *= size
  return places


def _split_shape(impl, shape):
  impl.slice_shape(shape)  # Raises if a size is not divisible.
  return [(dim.size, mesh_axis_of(impl, dim)) for dim in shape.dims]


def _reshape_slices(impl, laid_out, sizes):
  return impl.slicewise_delay_allreduce(
      lambda x: tf.reshape(x, sizes), laid_out)


def _apply(impl, laid_out, move):
  if move.split_axis is None:
    return impl.allconcat(laid_out, move.mesh_axis, move.concat_axis)
  if move.concat_axis is None:
    return impl.allsplit(laid_out, move.mesh_axis, move.split_axis)
  if move.split_axis == move.concat_axis:
    raise InternalError(
        "reshape: an axis would move from a dimension to itself; report "
        "this with the two shapes.")
  return impl.alltoall(
      laid_out, move.mesh_axis, move.split_axis, move.concat_axis)
