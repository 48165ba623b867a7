"""Boxes of variables read from parts: values, and which bytes are read."""

import math
import os
import zlib

import numpy as np
import pytest

from meshkeras.errors import CheckpointError
from meshkeras.store import box_reader, checksums, shard_reader
from meshkeras.store.manifest import BLOCK_BYTES, SliceEntry, VariableEntry

OFFSET = 24
CASES = (
    # (shape, parts per dim, box)
    ((), (), ()),
    ((7,), (1,), ((2, 5),)),
    ((6, 8), (2, 2), ((1, 5), (3, 7))),
    ((6, 8), (1, 2), ((0, 6), (0, 8))),
    ((4, 0), (1, 1), ((0, 4), (0, 0))),
    ((4, 6, 5), (2, 3, 1), ((1, 4), (1, 5), (2, 4))),
    # Rows with gaps that are worth skipping, and rows over a chunk.
    ((3, 50000), (1, 1), ((0, 3), (49990, 50000))),
    ((3, 4, 40000), (1, 2, 2), ((1, 3), (0, 4), (39000, 40000))),
    ((2, 1200000), (1, 2), ((0, 2), (0, 1200000))),
    ((2, 2, 1200000), (2, 1, 1), ((0, 2), (1, 2), (5, 1199999))),
    ((300000, 4), (1, 1), ((1000, 299000), (1, 3))),
    ((300000, 4), (4, 2), ((1000, 299000), (1, 3))),
)


def write(directory, shape, ways, dtype):
  """Returns (full value, VariableEntry) of a variable cut into parts."""
  value = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
  parts = []
  for number, index in enumerate(np.ndindex(*ways)):
    begin = tuple(i * n // w for i, n, w in zip(index, shape, ways))
    end = tuple((i + 1) * n // w for i, n, w in zip(index, shape, ways))
    part = value[tuple(map(slice, begin, end)) + (Ellipsis,)]
    data = part.reshape(-1).view(np.uint8)
    name = "part-%d" % number
    (directory / name).write_bytes(bytes(OFFSET) + data.tobytes())
    parts.append(SliceEntry(name, begin, part.shape, OFFSET, data.size,
                            checksums.checksums_of(data)))
  dims = tuple(("d%d" % i, n) for i, n in enumerate(shape))
  return value, VariableEntry("v", dims, np.dtype(dtype).name, True, "weight",
                              tuple(parts))


@pytest.fixture
def bytes_read(monkeypatch):
  """[(begin, end) within a file, ...] of every read, as they come."""
  found, preadv = [], os.preadv

  def recorded(descriptor, buffers, offset):
    count = preadv(descriptor, buffers, offset)
    found.append((offset, offset + count))
    return count

  monkeypatch.setattr(os, "preadv", recorded)
  return found


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
@pytest.mark.parametrize("shape,ways,box", CASES)
def test_box_is_what_numpy_cuts(tmp_path, shape, ways, box, dtype):
  value, variable = write(tmp_path, shape, ways, dtype)
  wanted = value[tuple(slice(*r) for r in box) + (Ellipsis,)]
  with shard_reader.ShardReader(tmp_path) as shards:
    reader = box_reader.BoxReader(shards)
    reader.verify([(variable, box)])
    for _ in range(2):
      found = reader.read_one(variable, box)
      assert found.dtype == wanted.dtype
      np.testing.assert_array_equal(found, wanted)


def test_bytes_that_no_box_needs_are_not_read(tmp_path, bytes_read):
  rows, row_bytes = 6, 4 * BLOCK_BYTES
  _, variable = write(tmp_path, (rows, row_bytes // 4), (1, 1), "float32")
  box = ((1, 5), (0, BLOCK_BYTES // 4))
  with shard_reader.ShardReader(tmp_path) as shards:
    reader = box_reader.BoxReader(shards)
    for act in (reader.verify, lambda wanted: list(reader.read(wanted))):
      del bytes_read[:]
      act([(variable, box)])
      assert bytes_read == [
          (OFFSET + row * row_bytes, OFFSET + row * row_bytes + BLOCK_BYTES)
          for row in range(1, 5)]


def test_each_block_is_read_once_however_the_box_cuts_it(
    tmp_path, bytes_read):
  _, variable = write(tmp_path, (300000, 4), (1, 1), "float32")
  with shard_reader.ShardReader(tmp_path) as shards:
    box_reader.BoxReader(shards).read_one(variable, ((20000, 290000), (1, 3)))
  blocks = [(begin - OFFSET) // BLOCK_BYTES for begin, _ in bytes_read]
  assert blocks == list(range(
      20000 * 16 // BLOCK_BYTES, -(-290000 * 16 // BLOCK_BYTES)))


def test_flipped_byte_is_found_where_it_is_needed_only(tmp_path):
  _, variable = write(tmp_path, (300000,), (1,), "float32")
  at = OFFSET + 2 * BLOCK_BYTES + 17
  path = tmp_path / "part-0"
  data = bytearray(path.read_bytes())
  data[at] ^= 4
  path.write_bytes(bytes(data))
  block = BLOCK_BYTES // 4
  with shard_reader.ShardReader(tmp_path) as shards:
    reader = box_reader.BoxReader(shards)
    reader.read_one(variable, ((0, 2 * block),))
    reader.read_one(variable, ((3 * block, 300000),))
    for box in (((2 * block - 1, 2 * block + 1),), ((0, 300000),)):
      for act in (reader.verify, lambda wanted: list(reader.read(wanted))):
        with pytest.raises(CheckpointError) as caught:
          act([(variable, box)])
        assert "part-0: variable 'v': bytes %d to %d have the checksum" % (
            OFFSET + 2 * BLOCK_BYTES, OFFSET + 3 * BLOCK_BYTES) in str(
                caught.value)


def test_file_that_shrinks_while_it_is_read_is_told(tmp_path):
  _, variable = write(tmp_path, (300000,), (1,), "float32")
  os.truncate(tmp_path / "part-0", OFFSET + 100)
  with shard_reader.ShardReader(tmp_path) as shards:
    with pytest.raises(CheckpointError) as caught:
      box_reader.BoxReader(shards).read_one(variable, ((0, 10),))
  assert "%d bytes expected from byte %d, 100 found" % (
      BLOCK_BYTES, OFFSET) in str(caught.value)


def test_every_library_gives_the_same_checksums():
  isal_zlib = pytest.importorskip("isal.isal_zlib")
  random = np.random.RandomState(0)
  for size in (0, 1, 7, 4096, BLOCK_BYTES + 3):
    data = random.randint(0, 256, size).astype(np.uint8)
    assert isal_zlib.crc32(data) == zlib.crc32(data)


@pytest.mark.parametrize("sizes", [
    (), (0, 5), (1,), (BLOCK_BYTES,), (3, BLOCK_BYTES - 3, 1),
    (BLOCK_BYTES + 1, 2 * BLOCK_BYTES, 7)])
def test_checksums_of_parts_are_those_of_the_whole(sizes):
  data = np.random.RandomState(0).randint(0, 256, sum(sizes)).astype(np.uint8)
  found, at = checksums.BlockChecksums(), 0
  for size in sizes:
    found.add(data[at:at + size])
    at += size
  assert found.text() == checksums.checksums_of(data)
