"""Saving a store and restoring it: any layout to any other; failures."""

import itertools
import os

import numpy as np
import pytest
import safetensors

from meshkeras.errors import CheckpointError
from meshkeras.mesh import Layout, Mesh, slices
from meshkeras.store import (
  commit,
  debris,
  manifest,
  owners,
  restore,
  stages,
)
from tests.single.store.stores import (
  clear,
  full_values,
  load,
  make_store,
)


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
