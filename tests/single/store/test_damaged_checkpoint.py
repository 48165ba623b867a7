"""Loading what is damaged, or cannot be read, changes nothing."""

import json
import os
import shutil

import numpy as np
import pytest

from meshkeras.errors import CheckpointError
from meshkeras.saving import reading
from meshkeras.store import box_reader, commit, manifest
from tests.single.store.stores import (
  VARIABLES,
  clear,
  full_values,
  load,
  make_store,
)


def damage(path, change):
  text = (path / manifest.INDEX_NAME).read_text()
  content = json.loads(text)
  del content["index_crc32"]
  change(content)
  (path / manifest.INDEX_NAME).write_text(json.dumps(content))


def flip(path, name, at):
  shard = path / name
  data = bytearray(shard.read_bytes())
  data[at] ^= 1
  shard.write_bytes(bytes(data))


def test_damage_is_told_and_nothing_changes(stores, store, values, tmp_path):
  whole = tmp_path / "whole"
  commit.save(stores[("d:2", "in:d")], str(whole), {})
  index = manifest.read(str(whole))
  shard = sorted(index.files)[1]
  size = index.files[shard]
  part = index.variables["big"].slices[-1]

  def copy(name):
    shutil.copytree(whole, tmp_path / name)
    return tmp_path / name

  def refused(path, *words):
    clear(store)
    before = full_values(store)
    with pytest.raises(CheckpointError) as caught:
      load(store, str(path))
    for word in words:
      assert word in str(caught.value), str(caught.value)
    assert full_values(store) == before
    # Variables that have no values yet have none again, the others theirs.
    new = ("a/bias", "half", "spectrum")
    for name in new:
      store[name].initialized = False
    with pytest.raises(CheckpointError) as caught:
      load(store, str(path))
    for word in words:
      assert word in str(caught.value), str(caught.value)
    for name in new:
      assert not store[name].initialized
      store[name].initialized = True
    assert {name: store.gather(name).tobytes() for name in store.names()
            if name not in new} == {
                name: value for name, value in before.items()
                if name not in new}

  path = copy("flipped")
  flip(path, part.file, part.offset + part.num_bytes - 1)
  refused(path, part.file, "'big'", "checksum", "expected")
  path = copy("truncated")
  os.truncate(path / shard, size - 1)
  refused(path, shard, "%d bytes expected, %d found" % (size, size - 1))
  path = copy("missing")
  os.unlink(path / shard)
  refused(path, shard, "none found")
  path = copy("newer")
  damage(path, lambda content: content.update(version=99))
  refused(path, "version 99", "up to 1")
  path = copy("moved")
  damage(path, lambda content: content["variables"][0]["slices"].pop())
  refused(path, "'a/kernel'", "48 elements, 96 expected")
  path = copy("cut")
  text = (path / manifest.INDEX_NAME).read_text()
  (path / manifest.INDEX_NAME).write_text(text[:len(text) // 2])
  refused(path, "no JSON")
  refused(tmp_path, "there is no meshkeras.json")
  refused(tmp_path / "nowhere", "not there")
  # A copy is as good as the first.
  load(store, str(copy("copy")))
  assert full_values(store) == values


def test_any_flipped_bit_of_any_file_is_told(tmp_path):
  """Index, headers and values: what is loaded is what was saved, or nothing.

  Some bits of the index do not matter: in its own checksum's name.
  """
  small = make_store("m:2", "cols:m", VARIABLES[:3])
  whole = tmp_path / "whole"
  commit.save(small, str(whole), {"note": "some text"})
  before = full_values(small)
  random = np.random.RandomState(1)
  for file in sorted(whole.iterdir()):
    content = file.read_bytes()
    places = set(random.randint(0, len(content), 150)) | set(range(16)) | set(
        range(len(content) - 40, len(content)))
    for at in sorted(places):
      changed = bytearray(content)
      changed[at] ^= 1 << random.randint(8)
      file.write_bytes(bytes(changed))
      name = content.rfind(b'"index_crc32"')
      if file.name != manifest.INDEX_NAME or not (
          name <= at < name + 13 or at >= len(content) - 3):
        with pytest.raises(CheckpointError):
          load(small, str(whole))
        with pytest.raises(CheckpointError):
          reading.verify(str(whole))
        assert full_values(small) == before, (file, at)
    file.write_bytes(content)
  load(small, str(whole))


def test_replicas_that_differ_after_a_load_are_told(
    stores, store, tmp_path, monkeypatch):
  """B23: only some of the replicas had the restored values."""
  commit.save(store, str(tmp_path), {})
  target = stores[("d:2,m:2", "rows:d,hidden:m")]
  read = box_reader.BoxReader.read

  def read_wrong(self, wanted):
    names = [variable.name for variable, _ in wanted]
    wrong = names.index("a/bias") + 2  # rank 2's, a replica of rank 0's
    for number, value in enumerate(read(self, wanted)):
      if number == wrong:
        value[0] += 1
      yield value

  monkeypatch.setattr(box_reader.BoxReader, "read", read_wrong)
  with pytest.raises(CheckpointError) as caught:
    load(target, str(tmp_path))
  assert ("%s: variable 'a/bias': ranks 0 and 2 hold the same part (hidden "
          "0:6) and have set values of the checksums " % tmp_path) in str(
              caught.value)


def test_any_failure_of_reading_is_told_and_undone(
    stores, store, tmp_path, monkeypatch):
  commit.save(store, str(tmp_path), {})
  target = stores[("d:4", "hidden:d")]
  before = full_values(target)

  def no_memory(self, shape, dtype):
    raise MemoryError("no more")

  monkeypatch.setattr(box_reader.BoxReader, "_array", no_memory)
  for name in target.names():
    target[name].initialized = False
  with pytest.raises(CheckpointError) as caught:
    load(target, str(tmp_path))
  assert "cannot be loaded (MemoryError: no more)" in str(caught.value)
  for name in target.names():
    assert not target[name].initialized
    target[name].initialized = True
  with pytest.raises(CheckpointError) as caught:
    load(target, str(tmp_path))
  assert "(MemoryError: no more). That happened while variables were set" in (
      str(caught.value))
  assert full_values(target) == before


def test_asynchronous_save_that_cannot_copy_is_told_at_once(
    store, tmp_path, monkeypatch):
  path = tmp_path / "new"

  def no_memory(name, rank, box):
    raise MemoryError("no more")

  monkeypatch.setattr(store, "read_box", no_memory)
  with pytest.raises(CheckpointError) as caught:
    commit.save(store, str(path), {}, asynchronous=True)
  assert "rank 0 of 1: MemoryError: no more" in str(caught.value)
  commit.wait_for_saves()
  assert not path.exists()
