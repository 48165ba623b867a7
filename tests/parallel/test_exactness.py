"""evaluate and predict exact for any N and batch size, on every process.

N below the number of processes, short last batches, weights, validation,
memory maps: B02, B04, B06, B09, B13, B14, B15, B17.
"""

import numpy as np
import pytest

from tests.parallel.exactness_cases import (
  BATCH_MESHES,
  BATCHES,
  ID_BATCH,
  ID_ROWS,
  MESHES,
  ROWS,
  WEIGHTED,
  case_name,
  data,
  labelled,
)

SUITE = "exactness"

on_meshes = pytest.mark.parametrize("num_processes, mesh, layout", [
    (n,) + case for n, cases in MESHES.items() for case in cases])
on_batch_meshes = pytest.mark.parametrize("num_processes, mesh, layout", [
    (n,) + case for n, cases in BATCH_MESHES.items() for case in cases])


@pytest.fixture
def values_of(by_rank):
  """Function (kind, processes, mesh, layout) -> [value of each rank]."""
  def get(kind, num_processes, mesh, layout):
    values = by_rank(num_processes, case_name(kind, mesh, layout))
    assert len(values) == num_processes
    return values
  return get


@on_meshes
@pytest.mark.parametrize("num_rows", ROWS)
def test_predict_gives_every_row_once_in_order(
    values_of, num_processes, mesh, layout, num_rows):
  x, _, _ = data(num_rows)
  for value in values_of("identity", num_processes, mesh, layout):
    for batch_size in BATCHES + ("whole",):
      found = value["%d, %s" % (num_rows, batch_size)]["predict"]
      np.testing.assert_array_equal(found, x)


@on_meshes
@pytest.mark.parametrize("num_rows", ROWS)
def test_evaluate_does_not_depend_on_batches_or_processes(
    values_of, num_processes, mesh, layout, num_rows):
  x, y, weights = (array.astype(np.float64) for array in data(num_rows))
  squares = np.mean((x - y) ** 2, axis=1)
  wanted = {"loss": squares.mean(), "mae": np.abs(x - y).mean(),
            "mse": squares.mean()}
  weighted = dict(wanted, loss=np.mean(squares * weights),
                  mse=np.sum(squares * weights) / weights.sum())
  values = values_of("identity", num_processes, mesh, layout)
  for batch_size in BATCHES + ("whole",):
    key = "%d, %s" % (num_rows, batch_size)
    for value in values:
      assert value[key]["evaluate"] == values[0][key]["evaluate"]
      assert value[key]["evaluate"] == pytest.approx(wanted, rel=1e-6)
      if batch_size in WEIGHTED:
        assert value[key]["weighted"] == values[0][key]["weighted"]
        assert value[key]["weighted"] == pytest.approx(weighted, rel=1e-6)


@on_meshes
def test_steps_are_rows_over_global_batch_rounded_up(
    values_of, num_processes, mesh, layout):
  for value in values_of("identity", num_processes, mesh, layout):
    for num_rows in ROWS:
      for batch_size in BATCHES:
        steps = int(np.ceil(num_rows / batch_size))
        assert value["%d, %d" % (num_rows, batch_size)]["counts"] == {
            "train": 0, "test": steps, "predict": steps}


@on_batch_meshes
def test_every_row_is_trained_on_once_per_epoch(
    values_of, num_processes, mesh, layout):
  # Two full steps of 3 rows and one of a single row.
  once = sorted([1 / ID_BATCH] * 6 + [1.0])
  for value in values_of("epochs", num_processes, mesh, layout):
    for order in ("shuffled", "in order"):
      assert value[order]["steps"] == 3 * 3
      for taken in value[order]["taken"]:
        np.testing.assert_allclose(sorted(taken), once, 1e-5)
    for taken in value["in order"]["taken"]:
      np.testing.assert_allclose(taken, [1 / 3] * 6 + [1.0], 1e-5)
    last = {int(np.argmax(taken)) for taken in value["shuffled"]["taken"]}
    assert len(last) > 1, "the epochs have one order"
    # A batch larger than the data is one step of them all.
    np.testing.assert_allclose(
        value["one step"], [1 / ID_ROWS] * ID_ROWS, 1e-5)


@on_batch_meshes
def test_rows_come_in_the_order_of_one_process(
    values_of, num_processes, mesh, layout):
  wanted = values_of("epochs", 1, "", "")[0]
  for value in values_of("epochs", num_processes, mesh, layout):
    np.testing.assert_allclose(
        value["shuffled"]["taken"], wanted["shuffled"]["taken"], 1e-5)


@on_meshes
def test_validation_equals_evaluate_afterwards(
    values_of, num_processes, mesh, layout):
  wanted = values_of("validation", 1, "", "")[0]
  for value in values_of("validation", num_processes, mesh, layout):
    for name, found in value.items():
      loss, accuracy = found["evaluate"]
      history = found["history"]
      assert history["val_loss"][-1] == loss, name
      assert history["val_accuracy"][-1] == accuracy, name
      for key, numbers in wanted[name]["history"].items():
        np.testing.assert_allclose(history[key], numbers, 1e-4)


@on_meshes
def test_memory_maps_give_the_numbers_of_arrays(
    values_of, num_processes, mesh, layout):
  for value in values_of("memory maps", num_processes, mesh, layout):
    arrays, maps = value["arrays"], value["maps"]
    # Not in every bit: the order in which Horovod adds up 4 gradients
    # depends on which of them happened to be ready together.
    for name, numbers in arrays["history"].items():
      np.testing.assert_allclose(maps["history"][name], numbers, 1e-5)
    np.testing.assert_allclose(maps["evaluate"], arrays["evaluate"], 1e-5)
    assert maps["predict"].shape == (len(labelled(22)[0]), 2)
    np.testing.assert_allclose(maps["predict"], arrays["predict"], 1e-4, 1e-6)
    for one, other in zip(maps["weights"], arrays["weights"]):
      np.testing.assert_allclose(one, other, 1e-4, 1e-6)


@on_batch_meshes
def test_short_last_batch_counts_by_its_rows(
    values_of, num_processes, mesh, layout):
  for loss in values_of("short last batch", num_processes, mesh, layout):
    assert loss == pytest.approx((8 + 12 + 9) / 3, rel=1e-6)


@on_batch_meshes
def test_weights_are_divided_by_their_global_sum(
    values_of, num_processes, mesh, layout):
  for value in values_of("uneven weights", num_processes, mesh, layout):
    assert value["evaluate"]["accuracy"] == 0.5     # 2 of 4, not 2 / 3
    # One weight of 1 among 8 rows, wherever the row is.
    np.testing.assert_array_equal(
        value["gradient"], np.array([1, 0, 0, 0, 1, 1, 1, 0]) / 8)


@on_meshes
def test_stop_asked_for_on_one_rank_stops_all(
    values_of, num_processes, mesh, layout):
  values = values_of("stop", num_processes, mesh, layout)
  assert [len(value["loss"]) for value in values] == [2] * num_processes
  assert all(value == values[0] for value in values)
