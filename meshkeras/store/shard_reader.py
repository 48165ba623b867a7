"""Reading bytes of a checkpoint's shards, each block verified."""

import contextlib
import os

import numpy as np

from meshkeras.errors import CheckpointError
from meshkeras.store.checksums import checksums_of
from meshkeras.store.manifest import BLOCK_BYTES, num_blocks

_DAMAGED = (
    "%s: variable %r: bytes %d to %d have the checksum %s, %s expected. The "
    "shard is damaged: copy it again, or use another checkpoint.")
_TOO_SHORT = (
    "%s: %d bytes expected from byte %d, %d found. The shard is damaged: "
    "copy it again, or use another checkpoint.")
_UNREADABLE = (
    "%s: cannot be read (%s). Copy the shard again, or use another "
    "checkpoint.")


class ShardReader:
  """The shards of one directory, opened when first read.

  A block is verified as soon as it is read, while the processor still has it
  at hand. Every method raises CheckpointError if a checksum differs, or if a
  shard is missing, too short, or cannot be read.

  Args:
    directory: of the checkpoint.
  """

  def __init__(self, directory):
    self._directory = directory
    self._descriptors = {}
    # The block that was read last apart from an array, and which it is.
    self._block = np.empty(BLOCK_BYTES, np.uint8)
    self._block_key = None

  def __enter__(self):
    return self

  def __exit__(self, *exception):
    for descriptor in self._descriptors.values():
      os.close(descriptor)
    self._descriptors = {}

  def fill(self, name, part, begin, out):
    """Fills an array with bytes of a part.

    Args:
      name: of the variable, for messages.
      part: SliceEntry.
      begin: of the first byte, within the part.
      out: uint8 array, as long as the bytes wanted.
    """
    at, end = begin, begin + out.size
    while at < end:
      number = at // BLOCK_BYTES
      first, last = _block_range(part, number)
      if begin <= first and last <= end:
        data = out[first - begin:last - begin]
        self._read(part, first, data)
        self._verify(name, part, number, data)
      else:
        last = min(last, end)
        out[at - begin:last - begin] = (
            self._whole_block(name, part, number)[at - first:last - first])
      at = last

  def verify(self, name, part, begin, end):
    """Verifies the blocks of a part that hold its bytes begin to end."""
    for number in range(begin // BLOCK_BYTES, num_blocks(end)):
      self._whole_block(name, part, number)

  def announce(self, part, begin, end):
    """Has the system begin to read bytes of a part that will be wanted."""
    if not hasattr(os, "posix_fadvise"):
      return
    with self._errors_told(part):
      descriptor = self._descriptor(part)
    try:
      os.posix_fadvise(descriptor, part.offset + begin, end - begin,
                       os.POSIX_FADV_WILLNEED)
    except OSError:  # only advice
      pass

  def _whole_block(self, name, part, number):
    """Returns a verified block; the array is good until the next call."""
    first, last = _block_range(part, number)
    data = self._block[:last - first]
    key = (part.file, part.offset, number)
    if key != self._block_key:
      self._block_key = None
      self._read(part, first, data)
      self._verify(name, part, number, data)
      self._block_key = key
    return data

  def _read(self, part, begin, out):
    """Fills a uint8 array with bytes of a part, unverified."""
    offset, done = part.offset + begin, 0
    with self._errors_told(part):
      while done < out.size:
        count = os.preadv(self._descriptor(part), [memoryview(out)[done:]],
                          offset + done)
        if not count:
          raise CheckpointError(
              _TOO_SHORT % (self._path(part), out.size, offset, done))
        done += count

  def _path(self, part):
    return os.path.join(self._directory, part.file)

  def _descriptor(self, part):
    if part.file not in self._descriptors:
      self._descriptors[part.file] = os.open(self._path(part), os.O_RDONLY)
    return self._descriptors[part.file]

  @contextlib.contextmanager
  def _errors_told(self, part):
    try:
      yield
    except OSError as error:
      raise CheckpointError(
          _UNREADABLE % (self._path(part), error.strerror)) from error

  def _verify(self, name, part, number, data):
    found = checksums_of(data)
    wanted = part.checksums[8 * number:8 * number + 8]
    if found != wanted:
      first, last = _block_range(part, number)
      raise CheckpointError(_DAMAGED % (
          self._path(part), name,
          part.offset + first, part.offset + last, found, wanted))


def _block_range(part, number):
  """Returns (first, last) byte of a block within its part."""
  first = number * BLOCK_BYTES
  return first, min(first + BLOCK_BYTES, part.num_bytes)
