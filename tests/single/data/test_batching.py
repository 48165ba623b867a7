"""Every row once per epoch, whatever the batch size and the mesh."""

import numpy as np
import pytest

from meshkeras.data import (
  ArraySource,
  BatchReader,
  RowOrder,
  num_steps,
  padded_batch_size,
  permutation,
)
from meshkeras.errors import ArgumentError

CASES = [
    (num_rows, global_batch, num_parts)
    for num_rows in (1, 2, 7, 12)
    for global_batch in (1, 3, 4, 100)
    for num_parts in (1, 2, 4)]


def _boxes(padded, num_parts):
  part = padded // num_parts
  return [(rank * part, (rank + 1) * part) for rank in range(num_parts)]


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("num_rows, global_batch, num_parts", CASES)
def test_parts_hold_each_row_once_in_order(
    num_rows, global_batch, num_parts, shuffled):
  rows = permutation(num_rows, seed=1, epoch=2) if shuffled else None
  order = RowOrder(num_rows, global_batch, rows)
  padded = padded_batch_size(global_batch, num_parts)
  values = np.arange(1, num_rows + 1)
  reader = BatchReader(
      ArraySource(values, "x", (), "int32"), order, padded)
  ones = BatchReader(
      ArraySource(np.ones(num_rows), "w", (), "float32"), order, padded)
  seen = []
  for step in range(order.num_steps):
    batch = np.concatenate(
        [reader.read(step, [box]) for box in _boxes(padded, num_parts)])
    weights = np.concatenate(
        [ones.read(step, [box]) for box in _boxes(padded, num_parts)])
    num_real = order.num_real_rows(step)
    assert batch.shape == weights.shape == (padded,)
    assert not batch[num_real:].any() and not weights[num_real:].any()
    assert weights[:num_real].all()
    seen.append(batch[:num_real])
  assert len(seen) == -(-num_rows // global_batch)
  expected = values if rows is None else values[rows]
  np.testing.assert_array_equal(np.concatenate(seen), expected)


def test_permutation_is_a_permutation_that_seed_and_epoch_choose():
  orders = [permutation(1000, seed, epoch).tolist()
            for seed in (0, 1, -1) for epoch in (0, 1, 2)]
  assert all(sorted(order) == list(range(1000)) for order in orders)
  assert len(set(map(tuple, orders))) == len(orders)
  assert permutation(1000, 1, 2).tolist() == orders[5]


def test_permutation_has_no_favourite_place():
  """The mean over epochs of each row's place is near the middle."""
  places = np.mean(
      [np.argsort(permutation(20, 3, epoch)) for epoch in range(2000)],
      axis=0)
  # One mean has the deviation sqrt((20 ** 2 - 1) / 12 / 2000) = 0.13.
  assert abs(places - 9.5).max() < 0.6


def test_rows_in_order_are_one_slice():
  order = RowOrder(10, 4)
  assert order.rows_of_step(1) == slice(4, 8)
  assert order.rows_of_step(1, 1, 3) == slice(5, 7)
  assert order.rows_of_step(2, 2, 4) == slice(10, 10)
  assert order.num_real_rows(2) == 2 and order.num_real_rows(9) == 0


def test_reader_reads_columns_and_pads_and_casts():
  array = np.arange(12, dtype=np.int64).reshape(3, 4)
  reader = BatchReader(
      ArraySource(array, "x", [("pixels", 4)], "int32"), RowOrder(3, 2), 4)
  part = reader.read(1, [(0, 2), (1, 3)], dtype="float32")
  assert part.dtype == np.float32
  np.testing.assert_array_equal(part, [[9, 10], [0, 0]])
  assert reader.read(1, [(2, 4), (1, 3)]).shape == (2, 2)
  assert reader.num_steps == 2 and reader.padded_batch == 4


def test_shuffled_reading_of_a_memory_map_leaves_it_on_disk(tmp_path):
  path = tmp_path / "x.npy"
  values = np.arange(20.0).reshape(10, 2)
  np.save(path, values)
  rows = permutation(10, 0, 0)
  reader = BatchReader(
      ArraySource(np.load(path, mmap_mode="r"), "x", [("a", 2)], "float32"),
      RowOrder(10, 4, rows), 4)
  np.testing.assert_array_equal(
      reader.read(2, [(0, 4), (0, 1)]),
      np.concatenate([values[rows[8:], :1], np.zeros((2, 1))]))


@pytest.mark.parametrize("global_batch", [0, -1, 2.0, "4", None, True])
def test_bad_batch_size_is_refused(global_batch):
  with pytest.raises(ArgumentError, match="batch_size: %r" % global_batch):
    num_steps(10, global_batch)


def test_numpy_batch_size_is_taken():
  assert num_steps(10, np.int64(4)) == 3
  assert RowOrder(10, np.int64(4)).global_batch == 4
