"""Geometry of fetching arbitrary ranges of a dimension that is split.

The dimension is cut into equal blocks, one per processor along an axis;
processor c wants the positions ranges[c]. Pure Python.
"""

from typing import NamedTuple


class RangePlan(NamedTuple):
  """Who sends which positions to whom, and what lies outside.

  pieces[target][source] is (begin, end) in global positions, or None.
  before[target] and after[target] count wanted positions below 0 and from
  `size` on; `size` is the dimension's full size.
  """

  pieces: tuple
  before: tuple
  after: tuple
  size: int

  @property
  def communicates(self):
    """Whether any piece crosses from one processor to another."""
    return any(
        piece is not None and source != target
        for target, sources in enumerate(self.pieces)
        for source, piece in enumerate(sources))

  def piece_size(self, target, source):
    piece = self.pieces[target][source]
    return piece[1] - piece[0] if piece else 0


def plan_ranges(ranges, size):
  """Returns the RangePlan for a dimension of `size` in len(ranges) blocks.

  Args:
    ranges: per processor, (begin, end) in global positions; all equally
      long; parts outside [0, size) are fill.
    size: the dimension's size, a multiple of len(ranges).

  Example:
    >>> plan = plan_ranges([(-1, 5), (3, 9)], size=8)
    >>> plan.pieces[0], plan.before, plan.after
    (((0, 4), (4, 5)), (1, 0), (0, 1))
  """
  block = size // len(ranges)
  pieces, before, after = [], [], []
  for begin, end in ranges:
    length = end - begin
    sources = []
    for source in range(len(ranges)):
      low = max(begin, source * block)
      high = min(end, (source + 1) * block)
      sources.append((low, high) if low < high else None)
    pieces.append(tuple(sources))
    before.append(min(max(0, -begin), length))
    after.append(min(max(0, end - size), length))
  return RangePlan(tuple(pieces), tuple(before), tuple(after), size)
