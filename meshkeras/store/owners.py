"""Which process writes which part of which variable.

A pure function of dims, layout and mesh: every process computes the same.
"""

from typing import NamedTuple

from meshkeras.mesh import slices

# A slice that several processes hold is cut into one piece for each of them
# from this size on; below, one of them writes it whole.
CUT_BYTES = 1 << 20


class Piece(NamedTuple):
  """A part of a variable that one process writes: a box of `name`."""

  name: str
  box: tuple
  num_bytes: int


def pieces_by_rank(variables, layout, mesh):
  """Returns {rank: [Piece]}: every element once, bytes spread evenly.

  Each slice goes to one of the processes that hold it: the one with the
  least to write so far, the largest slices first. Large ones are cut so
  that all that hold them write a part.

  Args:
    variables: objects with `name`, `dims` and `itemsize`.
    layout: Layout.
    mesh: Mesh.

  Returns: the pieces of a rank are in the order of names and positions.

  Example:
    >>> from meshkeras.mesh import Layout, Mesh
    >>> class Kernel:
    ...   name, dims, itemsize = "kernel", (("in", 4), ("out", 6)), 4
    >>> found = pieces_by_rank([Kernel], Layout("out:m"), Mesh("d:2,m:2"))
    >>> [(rank, piece.box) for rank, pieces in found.items()
    ...  for piece in pieces]
    [(0, ((0, 4), (0, 3))), (1, ((0, 4), (3, 6)))]
  """
  load = dict.fromkeys(range(mesh.size), 0)
  found = {rank: [] for rank in range(mesh.size)}
  undecided = []
  for variable in variables:
    for group, box in _slices_of(variable, layout, mesh):
      for part, ranks in _cut(variable, group, box):
        piece = Piece(
            variable.name, part, slices.box_size(part) * variable.itemsize)
        if len(ranks) == 1:
          found[ranks[0]].append(piece)
          load[ranks[0]] += piece.num_bytes
        else:
          undecided.append((piece, ranks))
  undecided.sort(key=lambda entry: (-entry[0].num_bytes, entry[0]))
  for piece, ranks in undecided:
    rank = min(ranks, key=lambda r: (load[r], r))
    found[rank].append(piece)
    load[rank] += piece.num_bytes
  return {rank: sorted(pieces) for rank, pieces in found.items()}


def _slices_of(variable, layout, mesh):
  """Yields (replica group, box) of each different slice."""
  split = slices.slice_axes(variable.dims, layout, mesh)
  along = [axis for axis in mesh.axis_names if axis not in split]
  for group in mesh.groups(along):
    yield group, slices.slice_box(variable.dims, layout, mesh, group[0])


def _cut(variable, group, box):
  """Yields (box, ranks that may write it) of a slice held by `group`."""
  count = len(group)
  large = slices.box_size(box) * variable.itemsize >= CUT_BYTES
  axis = next((i for i, (begin, end) in enumerate(box)
               if end - begin >= count), None)
  if count == 1 or not large or axis is None:
    yield box, group
    return
  begin, end = box[axis]
  cuts = [begin + (end - begin) * i // count for i in range(count + 1)]
  for rank, part in zip(group, zip(cuts, cuts[1:])):
    yield box[:axis] + (part,) + box[axis + 1:], (rank,)
