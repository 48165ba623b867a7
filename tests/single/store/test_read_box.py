"""Parts of slices read from the store."""

import numpy as np
import pytest

from meshkeras.mesh import Layout, Mesh
from meshkeras.models.runtime import Runtime
from meshkeras.store import commit, restore
from meshkeras.upstream import tf

DTYPES = ("float32", "bfloat16", "float16", "float64", "int8", "uint8",
          "int32", "int64", "bool", "complex64")
NINE = tuple(("d%d" % i, 2) for i in range(9))


def make(dims, dtype="float32", mesh="m:2", layout="cols:m"):
  store = Runtime(Mesh(mesh, simulate=True), Layout(layout), 0).store

  def values(key, sizes, box, dtype):
    del key
    whole = np.arange(np.prod(sizes, dtype=int)).reshape(sizes).astype(dtype)
    return whole[tuple(slice(*r) for r in box) + (Ellipsis,)]

  store.create("v", dims, tf.as_dtype(dtype), values, trainable=True,
               role="weight")
  store.initialize()
  return store


@pytest.mark.parametrize("dtype", DTYPES)
def test_box_is_the_part_of_the_full_value(dtype):
  store = make((("rows", 5), ("cols", 6)), dtype)
  full = store.gather("v")
  for rank, box in ((0, ((0, 5), (0, 3))), (0, ((1, 4), (1, 2))),
                    (1, ((4, 5), (3, 6))), (1, ((2, 2), (3, 6)))):
    found = store.read_box("v", rank, box)
    wanted = full[tuple(slice(*r) for r in box)]
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dims,box", [
    ((), ()), (NINE, ((0, 1),) * 9), (NINE, ((0, 2),) * 9)])
def test_box_of_no_dims_and_of_many(dims, box):
  store = make(dims)
  np.testing.assert_array_equal(
      store.read_box("v", 1, box),
      store.gather("v")[tuple(slice(*r) for r in box) + (Ellipsis,)])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_save_reads_some_rows_at_a_time(tmp_path, monkeypatch, asynchronous):
  """In parts that are no multiple of a block of checksums."""
  store = make((("rows", 3000), ("cols", 60)))
  monkeypatch.setattr(commit, "READ_BYTES", 70000)
  commit.save(store, tmp_path, {}, asynchronous=asynchronous)
  commit.wait_for_saves()
  whole = store.gather("v")
  for rank, box in store["v"].boxes.items():
    store.write_slices("v", {rank: np.zeros(
        [end - begin for begin, end in box], np.float32)})
  restore.restore(store, tmp_path, restore.read_agreed(tmp_path), ("weight",))
  np.testing.assert_array_equal(store.gather("v"), whole)
