"""CRC-32 of blocks of bytes, by the fastest library that is installed."""

import numpy as np

from meshkeras.store.manifest import BLOCK_BYTES

try:
  from isal.isal_zlib import crc32
except ImportError:  # no build for this machine: the same numbers, slower
  from zlib import crc32


def checksum(array):
  """Returns the CRC-32 of a contiguous array's bytes, 8 hex digits."""
  return "%08x" % crc32(array.reshape(-1).view(np.uint8))


def checksums_of(data):
  """Returns the CRC-32 of each block of uint8 `data`, 8 hex digits each.

  Example:
    >>> checksums_of(np.frombuffer(b"123456789", np.uint8))
    'cbf43926'
  """
  return "".join(
      "%08x" % crc32(data[begin:begin + BLOCK_BYTES])
      for begin in range(0, data.size, BLOCK_BYTES))


class BlockChecksums:
  """As `checksums_of`, of data that comes in parts of any size."""

  def __init__(self):
    self._found = []
    self._crc, self._filled = 0, 0

  def add(self, data):
    """Takes the next bytes, a uint8 array."""
    at = 0
    while at < data.size:
      part = data[at:at + BLOCK_BYTES - self._filled]
      self._crc = crc32(part, self._crc)
      self._filled += part.size
      at += part.size
      if self._filled == BLOCK_BYTES:
        self._end_block()

  def _end_block(self):
    self._found.append("%08x" % self._crc)
    self._crc, self._filled = 0, 0

  def text(self):
    """Returns the checksums; nothing may be added after it."""
    if self._filled:
      self._end_block()
    return "".join(self._found)
