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
