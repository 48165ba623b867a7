"""Saving a store and restoring it: any layout to any other, and damage."""

import itertools
import json
import os
import shutil

import numpy as np
import pytest
import safetensors

from meshkeras.errors import CheckpointError
from meshkeras.mesh import Layout, Mesh, slices
from meshkeras.models.runtime import Runtime
from meshkeras.saving import reading
from meshkeras.store import (
  box_reader,
  commit,
  counter_random,
  debris,
  manifest,
  owners,
  restore,
  stages,
)
from meshkeras.upstream import tf

VARIABLES = (
    ("a/kernel", (("in", 8), ("hidden", 12)), "float32"),
    ("a/bias", (("hidden", 12),), "float32"),
    ("scalar", (), "float64"),
    ("b/kernel", (("hidden", 12), ("rows", 4), ("cols", 6)), "bfloat16"),
    ("spectrum", (("rows", 4), ("z", 3)), "complex64"),
    ("counts", (("cols", 6),), "int64"),
    ("flags", (("in", 8),), "bool"),
    ("half", (("cols", 6), ("in", 8)), "float16"),
    # Of several blocks of checksums, and large enough to be cut for owners.
    ("big", (("in", 8), ("wide", 70000)), "float32"))
LAYOUTS = (
    ("", ""), ("d:2", "in:d"), ("d:4", "hidden:d"), ("d:4", ""),
    ("d:2,m:2", "rows:d,hidden:m"), ("d:2,m:2", "wide:m,in:d"),
    ("m:2", "cols:m"))
WEIGHTS = ("weight",)


def initial(key, sizes, box, dtype):
  return (counter_random.numpy_normal(key, sizes, box) * 3).astype(dtype)


def make_store(mesh, layout, variables=VARIABLES):
  runtime = Runtime(Mesh(mesh, simulate=True), Layout(layout), seed=3)
  for name, dims, dtype in variables:
    runtime.store.create(name, dims, tf.as_dtype(dtype), initial,
                         trainable=True, role="weight")
  runtime.store.initialize()
  return runtime.store


def full_values(store):
  return {name: store.gather(name).tobytes() for name in store.names()}


def clear(store):
  for name in store.names():
    store.write_slices(name, {
        rank: np.zeros_like(value)
        for rank, value in store.read_slices(name).items()})


def load(store, path, strict=True):
  return restore.restore(
      store, path, restore.read_agreed(path), WEIGHTS, strict)


@pytest.fixture(scope="module")
def stores():
  return {layout: make_store(*layout) for layout in LAYOUTS}


@pytest.fixture(scope="module")
def values(stores):
  return full_values(stores[LAYOUTS[0]])


@pytest.fixture
def store(stores, values):
  """The store of one processor, with its first values."""
  found = stores[("", "")]
  found.initialized = True
  for name in found.names():
    found.scatter(name, np.frombuffer(
        values[name], manifest.numpy_dtype(found[name].dtype.name)).reshape(
            found[name].full_shape))
  return found


def test_save_at_each_layout_loads_at_every_other_bit_equal(
    stores, values, tmp_path):
  for number, (saved_at, saved) in enumerate(stores.items()):
    path = str(tmp_path / str(number))
    commit.save(saved, path, {"step": number})
    assert restore.read_agreed(path).header["layout"] == saved_at[1]
  for number, loaded in itertools.product(
      range(len(stores)), stores.values()):
    clear(loaded)
    load(loaded, str(tmp_path / str(number)))
    assert full_values(loaded) == values


def test_shards_hold_each_element_once_and_any_tool_opens_them(
    stores, values, tmp_path):
  for number, (layout, saved) in enumerate(stores.items()):
    path = str(tmp_path / str(number))
    commit.save(saved, path, {})
    index = manifest.read(path)
    full = {v.name: np.zeros(v.shape, manifest.numpy_dtype(v.dtype))
            for v in index.variables.values()}
    for name in index.files:
      with safetensors.safe_open(os.path.join(path, name), "numpy") as shard:
        for key in shard.keys():  # noqa: SIM118
          if "BF16" in shard.get_slice(key).get_dtype():
            continue
          put(full, key, shard.get_tensor(key))
    for name, value in full.items():
      if name != "b/kernel":
        assert value.tobytes() == values[name], (layout, name)
    total = sum(v.num_bytes for v in index.variables.values())
    assert total <= sum(index.files.values()) < 1.01 * total


def put(full, key, value):
  """Puts a shard's tensor where its key says."""
  name, _, box = key.partition("[")
  target = full[name]
  if target.dtype.kind == "c":
    value = value.view(target.dtype)[..., 0]
  where = tuple(slice(*map(int, part.split(":")))
                for part in box.rstrip("]").split(",")) if box else ...
  target[where] = value


def test_owners_share_the_bytes_evenly():
  class Variable:
    itemsize = 4

    def __init__(self, name, dims):
      self.name, self.dims = name, dims

  variables = [
      Variable("k1", (("in", 1024), ("hidden", 4096))),
      Variable("k2", (("hidden", 4096), ("out", 4096))),
      Variable("bias", (("out", 4096),)), Variable("b2", (("in", 1024),))]
  for mesh, layout in (("d:4", ""), ("d:2,m:2", "hidden:m"), ("d:3", "")):
    mesh, layout = Mesh(mesh, simulate=True), Layout(layout)
    pieces = owners.pieces_by_rank(variables, layout, mesh)
    shares = [sum(p.num_bytes for p in found) for found in pieces.values()]
    assert sum(shares) == 4 * sum(
        np.prod([size for _, size in v.dims]) for v in variables)
    assert max(shares) < 1.01 * min(shares)
    for rank, found in pieces.items():
      for piece in found:
        dims = next(v.dims for v in variables if v.name == piece.name)
        held = slices.slice_box(dims, layout, mesh, rank)
        assert slices.intersect(held, piece.box) == piece.box


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


def test_differing_variables_are_told_in_one_report(
    store, values, tmp_path):
  commit.save(store, str(tmp_path), {})
  other = make_store("", "", [
      ("a/kernel", (("in", 8), ("hidden", 10)), "float32"),
      ("a/bias", (("hidden", 12),), "float32"),
      ("extra", (("in", 8),), "float32")])
  before = full_values(other)
  with pytest.raises(CheckpointError) as caught:
    load(other, str(tmp_path))
  message = str(caught.value)
  for words in ("missing in the checkpoint: extra", "not in the model: big",
                "a/kernel: [in=8, hidden=12] float32 in the checkpoint, "
                "[in=8, hidden=10] float32 in the model"):
    assert words in message
  assert full_values(other) == before
  found = load(other, str(tmp_path), strict=False)
  assert found.missing == ["extra"] and len(found.unexpected) == 7
  assert len(found.mismatched) == 1
  assert full_values(other)["a/bias"] == values["a/bias"]
  assert full_values(other)["a/kernel"] == before["a/kernel"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_failure_at_each_stage_leaves_the_old_checkpoint(
    store, values, tmp_path, asynchronous):
  path = tmp_path / "saved"
  commit.save(store, str(path), {"step": 1})
  names = sorted(os.listdir(path))
  clear(store)
  for stage in ("within_write", "after_write", "after_flush", "after_index",
                "before_commit"):
    def fail(reached, stage=stage):
      if reached == stage:
        raise OSError(28, "No space left on device")
    stages.observe(fail)
    try:
      with pytest.raises(CheckpointError, match="rank 0 of 1|No space") as e:
        commit.save(store, str(path), {"step": 2}, None, asynchronous)
        commit.wait_for_saves()
      assert "as it was" in str(e.value)
    finally:
      stages.stop_observing(fail)
    assert sorted(os.listdir(path)) == names
  load(store, str(path))
  assert full_values(store) == values
  commit.save(store, str(path), {"step": 3}, None, asynchronous)
  commit.wait_for_saves()
  assert manifest.read(str(path)).header["step"] == 3
  assert len(os.listdir(path)) == 2


def test_asynchronous_save_holds_the_values_it_was_called_with(
    store, values, tmp_path):
  commit.save(store, str(tmp_path / "saved"), {}, asynchronous=True)
  clear(store)
  load(store, str(tmp_path / "saved"))
  assert full_values(store) == values


def test_debris_is_removed_and_what_others_wrote_stays(store, tmp_path):
  path = tmp_path / "saved"
  path.mkdir()
  commit.save(store, str(path), {})
  old = next(name for name in os.listdir(path) if name.startswith("shard"))
  token = old.split(".")[1]
  kept = {
      "notes.txt": b"mine",
      "shard-00000-of-00001.safetensors": b"another tool's",
      "shard-00001-of-00002.0123456789abcdef.safetensors": b"no header",
      # Our bytes under a name whose token is another's.
      "shard-00000-of-00001.0123456789abcdef.safetensors":
          (path / old).read_bytes(),
      ".meshkeras.json.0123456789abcdef": b"no index"}
  for name, data in kept.items():
    (path / name).write_bytes(data)
  gone = {
      "shard-00007-of-00009.%s.safetensors" % token:
          (path / old).read_bytes()[:-100],
      ".meshkeras.json.%s" % token:
          (path / manifest.INDEX_NAME).read_bytes()[:30],
      ".result-00001.%s.json" % token: b'{"save": "%s",' % token.encode()}
  for name, data in gone.items():
    (path / name).write_bytes(data)
  commit.save(store, str(path), {})
  found = set(os.listdir(path))
  assert set(kept) <= found and not set(gone) & found and old not in found
  debris.remove_checkpoint(str(path))
  assert set(os.listdir(path)) == set(kept)


def test_directory_that_cannot_be_made_is_an_error(store, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(CheckpointError, match="cannot be made"):
    commit.save(store, str(tmp_path / "file" / "saved"), {})
