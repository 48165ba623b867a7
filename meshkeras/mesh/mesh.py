"""Named axes over processors."""

import itertools

from meshkeras.errors import MeshError, near_names
from meshkeras.mesh.dimension import NAME_PATTERN


class Mesh:
  """Axes with names and sizes; one processor at each point.

  Processors are numbered row by row, the last axis fastest, so that
  processor r of a mesh is Horovod's rank r.

  Args:
    shape: "data:2,model:2", or a sequence of (name, size) pairs, or another
      Mesh. The empty string is a mesh of one processor.
    simulate: run every processor inside this one process, for debugging a
      layout and for tests. Slower than one process without a mesh.

  Raises:
    MeshError: the text cannot be read, a size is not a whole number of at
      least 1, or a name occurs twice.

  Example:
    >>> mesh = Mesh("data:2,model:2")
    >>> mesh.size, mesh.coordinates(3)
    (4, {'data': 1, 'model': 1})
  """

  def __init__(self, shape, simulate=False):
    if isinstance(shape, Mesh):
      simulate = simulate or shape.simulate
      shape = shape.axes
    self._axes = tuple(_parse_axes(shape))
    self._simulate = bool(simulate)

  @property
  def axes(self):
    """((name, size), ...) in order."""
    return self._axes

  @property
  def axis_names(self):
    return tuple(name for name, _ in self._axes)

  @property
  def simulate(self):
    return self._simulate

  @property
  def size(self):
    """Number of processors."""
    size = 1
    for _, axis_size in self._axes:
      size *= axis_size
    return size

  def axis_size(self, axis):
    """Returns the number of processors along `axis`."""
    for name, size in self._axes:
      if name == axis:
        return size
    raise MeshError(
        "Mesh %r has no axis %r; %s"
        % (str(self), axis, near_names(axis, self.axis_names)))

  def coordinates(self, rank):
    """Returns {axis name: position} of processor `rank`."""
    if not 0 <= rank < self.size:
      raise MeshError(
          "Mesh %r: processor %d asked for; it has processors 0 to %d."
          % (str(self), rank, self.size - 1))
    position = {}
    for name, size in reversed(self._axes):
      rank, position[name] = divmod(rank, size)
    return {name: position[name] for name in self.axis_names}

  def rank(self, coordinates):
    """Returns the processor at {axis name: position}."""
    rank = 0
    for name, size in self._axes:
      rank = rank * size + coordinates[name]
    return rank

  def groups(self, axes):
    """Returns the groups of processors that differ along `axes` only.

    Args:
      axes: axis names, in any order.

    Returns: tuple of tuples of ranks, each ascending; the groups in the
      order of their lowest rank.

    Example:
      >>> Mesh("data:2,model:2").groups(["data"])
      ((0, 2), (1, 3))
    """
    along = set(axes)
    for axis in along:
      self.axis_size(axis)
    groups = {}
    for rank in range(self.size):
      fixed = tuple(
          value for name, value in self.coordinates(rank).items()
          if name not in along)
      groups.setdefault(fixed, []).append(rank)
    return tuple(tuple(group) for group in groups.values())

  def axis_unions(self):
    """Returns every non-empty set of axes longer than 1, smallest first."""
    long_axes = [name for name, size in self._axes if size > 1]
    return tuple(itertools.chain.from_iterable(
        itertools.combinations(long_axes, count)
        for count in range(1, len(long_axes) + 1)))

  def __str__(self):
    return ",".join("%s:%d" % axis for axis in self._axes)

  def __repr__(self):
    simulate = ", simulate=True" if self._simulate else ""
    return "Mesh(%r%s)" % (str(self), simulate)

  def __eq__(self, other):
    return (isinstance(other, Mesh) and self._axes == other.axes
            and self._simulate == other.simulate)

  def __hash__(self):
    return hash((self._axes, self._simulate))


def _parse_axes(shape):
  """Yields the (name, size) pairs of a mesh given as text or pairs."""
  seen = set()
  for part in _parts(shape):
    name, size = _parse_axis(part, shape)
    if name in seen:
      raise MeshError(
          "Mesh %r: axis %r occurs twice; each axis has one size. Rename or "
          "drop one." % (shape, name))
    seen.add(name)
    yield name, size


def _parts(shape):
  if isinstance(shape, str):
    return [part for part in shape.replace(";", ",").split(",")
            if part.strip()]
  try:
    return list(shape)
  except TypeError:
    raise MeshError(
        "Mesh: %r given; accepted is text like 'data:2,model:2' or a list "
        "of (name, size) pairs." % (shape,)) from None


def _parse_axis(part, shape):
  pair = part.replace("=", ":").split(":") if isinstance(part, str) else part
  try:
    name, size = pair
    name = name.strip()
    size_number = int(size)
    whole = size_number == float(size)
  except (TypeError, ValueError, AttributeError):
    name, size_number, whole = None, 0, False
  if not whole or size_number < 1 or not NAME_PATTERN.match(name or ""):
    raise MeshError(
        "Mesh %r: axis %r cannot be read; accepted is name:size with a size "
        "of at least 1, for example 'data:2,model:2'." % (shape, part))
  return name, size_number
