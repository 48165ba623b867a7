"""Which part of a tensor a processor holds.

A box is a tuple of (begin, end) per dimension, in global positions.
"""

from meshkeras.errors import LayoutError


def slice_shape(dims, layout, mesh):
  """Returns the sizes of the part of a tensor that each processor holds.

  Args:
    dims: ((name, size), ...).
    layout: Layout.
    mesh: Mesh.

  Raises:
    LayoutError: a split size is not divisible by its axis.
  """
  return tuple(end - begin for begin, end in slice_box(dims, layout, mesh, 0))


def slice_box(dims, layout, mesh, rank):
  """Returns the box of the tensor that processor `rank` holds.

  Raises:
    LayoutError: a split dimension's size is not divisible.

  Example:
    >>> from meshkeras.mesh import Layout, Mesh
    >>> slice_box([("in", 4), ("hidden", 8)], Layout("hidden:model"),
    ...           Mesh("data:2,model:2"), rank=1)
    ((0, 4), (4, 8))
  """
  coordinates = mesh.coordinates(rank)
  box = []
  for name, size in dims:
    axis = layout.axis_of(name)
    ways = mesh.axis_size(axis) if axis in mesh.axis_names else 1
    if size % ways:
      raise LayoutError(
          "dimension %s=%d is split over axis %r of size %d, which does not "
          "divide it" % (name, size, axis, ways))
    part = size // ways
    begin = coordinates[axis] * part if ways > 1 else 0
    box.append((begin, begin + part))
  return tuple(box)


def slice_axes(dims, layout, mesh):
  """Returns the axes of the mesh, in mesh order, that split this tensor."""
  axes = {layout.axis_of(name) for name, _ in dims}
  return tuple(axis for axis in mesh.axis_names
               if axis in axes and mesh.axis_size(axis) > 1)


def replica_group(dims, layout, mesh, rank):
  """Returns the ranks that hold the same part as `rank`, ascending."""
  split = slice_axes(dims, layout, mesh)
  along = [axis for axis in mesh.axis_names if axis not in split]
  for group in mesh.groups(along):
    if rank in group:
      return group
  return (rank,)


def intersect(box, other):
  """Returns the common part of two boxes, or None if there is none."""
  common = tuple(
      (max(begin, other_begin), min(end, other_end))
      for (begin, end), (other_begin, other_end) in zip(box, other))
  if any(begin >= end for begin, end in common):
    return None
  return common


def relative(box, origin):
  """Returns Python slices for `box` inside an array that begins at `origin`.

  Args:
    box: a box in global positions.
    origin: the box whose array is to be indexed.
  """
  return tuple(
      slice(begin - origin_begin, end - origin_begin)
      for (begin, end), (origin_begin, _) in zip(box, origin))


def box_shape(box):
  """Returns the sizes of a box."""
  return tuple(end - begin for begin, end in box)


def box_size(box):
  """Returns the number of elements of a box."""
  size = 1
  for begin, end in box:
    size *= end - begin
  return size


def chunks(box, size):
  """Yields boxes that make up `box`, in the order of rows.

  Args:
    box: a box in global positions.
    size: how many elements each may have, at least 1.

  Example:
    >>> list(chunks(((0, 3), (4, 8)), 8))
    [((0, 2), (4, 8)), ((2, 3), (4, 8))]
  """
  if box_size(box) <= size or not box:
    yield box
    return
  (begin, end), rest = box[0], box[1:]
  rows = max(1, size // box_size(rest))
  for first in range(begin, end, rows):
    block = (first, min(first + rows, end))
    for part in chunks(rest, size):
      yield (block,) + part
