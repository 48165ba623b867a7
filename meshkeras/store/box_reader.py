"""Reading boxes of variables out of the parts that a checkpoint holds."""

import collections
import math
from typing import NamedTuple

import numpy as np

from meshkeras.mesh import slices
from meshkeras.store import manifest as manifest_lib

# Bytes read at a time where they must be sorted out in memory.
CHUNK_BYTES = 1 << 22
# Bytes that the disk is told of before they are read.
AHEAD_BYTES = 1 << 24
# Gaps up to this many bytes are read through rather than skipped.
GAP_BYTES = 1 << 16
# TensorFlow keeps an array that begins at a multiple of its alignment (16 to
# 64 bytes) as the variable's own memory, and copies any other.
KEPT_BYTES, COPIED_OFFSET = 64, 8


class BoxReader:
  """Reads and verifies boxes of variables.

  The disk is told of what comes next, so that it works while values are
  verified, copied and used.

  Args:
    shards: ShardReader.
  """

  def __init__(self, shards):
    self._shards = shards
    self._buffer = np.empty(0, np.uint8)
    self._rows = np.empty(0, np.uint8)

  def verify(self, wanted):
    """Verifies every block of bytes that boxes of variables need.

    Args:
      wanted: list of (VariableEntry, box).

    Raises:
      CheckpointError: a checksum differs, or bytes cannot be read.
    """
    for number, part, rows, _ in self._announced(wanted):
      self._shards.verify(
          wanted[number][0].name, part, rows.begin, rows.end)

  def read(self, wanted):
    """Yields the array of each box of a variable, verified.

    An array is good until the next one, which reuses its memory: memory
    asked for anew costs more time than the reading. It lies where TensorFlow
    copies it.

    Args:
      wanted: list of (VariableEntry, box).

    Raises:
      CheckpointError: a checksum differs, or bytes cannot be read.
    """
    reads = self._announced(wanted)
    following = next(reads, None)
    for number, (variable, box) in enumerate(wanted):
      out = self._array(slices.box_shape(box),
                        manifest_lib.numpy_dtype(variable.dtype))
      while following is not None and following[0] == number:
        _, part, rows, place = following
        # The ellipses keep a scalar an array.
        target = out[place + (Ellipsis,)][rows.place + (Ellipsis,)]
        self._read_rows(variable.name, part, rows, target)
        following = next(reads, None)
      yield out

  def read_one(self, variable, box):
    """Returns the array of one box of a variable, as `read` does."""
    return next(self.read([(variable, box)]))

  def _announced(self, wanted):
    """Yields (number, SliceEntry, _Rows, index within the box) to be read.

    The number is the box's among `wanted`.
    """
    ahead, ahead_bytes = collections.deque(), 0
    for number, (variable, box) in enumerate(wanted):
      for part, inside, place in _parts(variable, box):
        for rows in _reads(part.shape, inside, variable.itemsize):
          self._shards.announce(part, rows.begin, rows.end)
          ahead.append((number, part, rows, place))
          ahead_bytes += rows.end - rows.begin
          while ahead_bytes > AHEAD_BYTES:
            item = ahead.popleft()
            ahead_bytes -= item[2].end - item[2].begin
            yield item
    yield from ahead

  def _read_rows(self, name, part, rows, target):
    num_bytes = rows.end - rows.begin
    if target.nbytes == num_bytes and target.flags.c_contiguous:
      self._shards.fill(name, part, rows.begin,
                        target.reshape(-1).view(np.uint8))
      return
    if self._rows.size < num_bytes:
      self._rows = np.empty(num_bytes, np.uint8)
    raw = self._rows[:num_bytes]
    self._shards.fill(name, part, rows.begin, raw)
    target[...] = raw.view(target.dtype).reshape(rows.shape)[rows.inner]

  def _array(self, shape, dtype):
    size = math.prod(shape) * dtype.itemsize
    if self._buffer.size < size + 2 * KEPT_BYTES:
      self._buffer = np.empty(0, np.uint8)  # freed before the next is made
      self._buffer = np.empty(size + 2 * KEPT_BYTES, np.uint8)
    begin = -self._buffer.ctypes.data % KEPT_BYTES + COPIED_OFFSET
    return self._buffer[begin:begin + size].view(dtype).reshape(shape)


class _Rows(NamedTuple):
  """Bytes of a part that are read at once: whole rows of some dim.

  Attributes:
    begin, end: the bytes, within the part.
    shape: of the values they are.
    inner: index of those that are wanted.
    place: index of where these belong in what is wanted of the part.
  """

  begin: int
  end: int
  shape: tuple
  inner: tuple
  place: tuple


def _parts(variable, box):
  """Yields (SliceEntry, box within it, index within `box`) where they meet."""
  for part in variable.slices:
    wanted = slices.intersect(part.box, box)
    if wanted is not None:
      inside = tuple((begin - origin, end - origin) for (begin, end), origin
                     in zip(wanted, part.begin))
      yield part, inside, slices.relative(wanted, box)


def _reads(shape, inside, itemsize):
  """Yields the _Rows to read for a box of a part, in the order of bytes.

  Args:
    shape: of the part.
    inside: box within the part.
    itemsize: bytes of one value.

  Example:
    >>> [(r.begin, r.end) for r in _reads((2, 8), ((1, 2), (0, 4)), 4)]
    [(32, 64)]
    >>> [(r.begin, r.end) for r in
    ...  _reads((2, 1 << 17), ((0, 2), (0, 4)), 4)]
    [(0, 16), (524288, 524304)]
  """
  if not shape:
    yield _Rows(0, itemsize, (), (), ())
    return
  (first, last), rest = inside[0], inside[1:]
  row = itemsize * math.prod(shape[1:])
  if rest and (row > CHUNK_BYTES or row - _span(shape[1:], rest, itemsize)
               > GAP_BYTES):
    for position in range(first, last):
      for rows in _reads(shape[1:], rest, itemsize):
        yield rows._replace(begin=position * row + rows.begin,
                            end=position * row + rows.end,
                            place=(position - first,) + rows.place)
    return
  inner = (slice(None),) + tuple(slice(*range_) for range_ in rest)
  at_once = max(1, CHUNK_BYTES // max(1, row))
  for at in range(first, last, at_once):
    count = min(at_once, last - at)
    yield _Rows(at * row, (at + count) * row, (count,) + tuple(shape[1:]),
                inner, (slice(at - first, at - first + count),))


def _span(shape, inside, itemsize):
  """Returns the bytes from the first to the last that a box needs."""
  last = 0
  for size, (begin, end) in zip(shape, inside):
    last = last * size + end - 1 - begin
  return (last + 1) * itemsize
