"""The same numbers on 1, 2 and 4 processes and at every layout.

History and weights against one process (B26), initial weights and dropout
masks in every bit (B34), return values on every rank, collectives per step.
"""

import json

import numpy as np
import pytest

from tests.parallel.training_cases import (
  CASES,
  EPOCHS,
  MASK_CASES,
  MASK_FEATURES,
  MASK_ROWS,
  MASK_STEPS,
  STEP_CASES,
  case_name,
  mask_name,
  step_name,
  watches_batches,
)

SUITE = "training"
ON_PROCESSES = [(n,) + case for n in (2, 4) for case in CASES[n]]
ALL = [(1,) + case for case in CASES[1]] + ON_PROCESSES
MASKS = [(n,) + case for n in (2, 4) for case in MASK_CASES[n]]
STEPS = [(n,) + case for n in (2, 4) for case in STEP_CASES[n]]

parametrize = pytest.mark.parametrize("num_processes, model, mesh, layout",
                                      ON_PROCESSES)


def reference(by_rank, model):
  return by_rank(1, case_name(model, "", ""))[0]


def check_close(found, wanted, rtol):
  """Compares nested lists and dictionaries of numbers."""
  if isinstance(wanted, dict):
    assert sorted(found) == sorted(wanted)
    for key, value in wanted.items():
      check_close(found[key], value, rtol)
  elif isinstance(wanted, list) and any(
      isinstance(value, (dict, list, np.ndarray)) for value in wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
      check_close(one, other, rtol)
  else:
    np.testing.assert_allclose(found, wanted, rtol, atol=1e-6)


def as_text(value):
  """Returns a text that differs when any bit of a value does."""
  def default(array):
    return [array.dtype.name, array.shape, array.tobytes().hex()]

  return json.dumps(value, default=default, sort_keys=True)


@pytest.mark.parametrize("num_processes, model, mesh, layout", ALL)
def test_all_values_are_those_of_rank_0_in_every_bit(
    by_rank, num_processes, model, mesh, layout):
  values = by_rank(num_processes, case_name(model, mesh, layout))
  assert len(values) == num_processes
  for name, wanted in values[0].items():
    for value in values[1:]:
      assert as_text(value[name]) == as_text(wanted), name


@parametrize
def test_initial_weights_equal_one_process_in_every_bit(
    by_rank, num_processes, model, mesh, layout):
  found = by_rank(num_processes, case_name(model, mesh, layout))[0]
  wanted = reference(by_rank, model)
  for one, other in zip(found["initial weights"], wanted["initial weights"]):
    np.testing.assert_array_equal(one, other)
    assert one.dtype == other.dtype and one.shape == other.shape


@parametrize
def test_one_sgd_step_gives_the_weights_of_one_process(
    by_rank, num_processes, model, mesh, layout):
  found = by_rank(num_processes, case_name(model, mesh, layout))[0]
  wanted = reference(by_rank, model)
  check_close(found["after one step"], wanted["after one step"], 1e-5)
  check_close(found["train_on_batch"], wanted["train_on_batch"], 1e-5)
  changed = [np.any(a != b) for a, b in zip(
      wanted["after one step"], wanted["initial weights"])]
  assert sum(changed) >= len(changed) - 1  # a bias may have no gradient


@parametrize
def test_history_equals_one_process(
    by_rank, num_processes, model, mesh, layout):
  found = by_rank(num_processes, case_name(model, mesh, layout))[0]
  wanted = reference(by_rank, model)
  assert sorted(found["history"]) == [
      "accuracy", "loss", "val_accuracy", "val_loss"]
  assert len(found["history"]["loss"]) == EPOCHS
  check_close(found["history"], wanted["history"], 1e-4)
  assert wanted["history"]["loss"][-1] < wanted["history"]["loss"][0]


@parametrize
def test_callbacks_get_the_logs_of_one_process(
    by_rank, num_processes, model, mesh, layout):
  found = by_rank(num_processes, case_name(model, mesh, layout))[0]
  wanted = reference(by_rank, model)
  assert found["iterations"] == EPOCHS * 5
  check_close(found["epoch logs"], wanted["epoch logs"], 1e-4)
  if watches_batches(model, layout):
    assert len(wanted["batch logs"]) == EPOCHS * 5
    check_close(found["batch logs"], wanted["batch logs"], 1e-4)


@parametrize
def test_weights_after_20_steps_are_close_to_one_process(
    by_rank, num_processes, model, mesh, layout):
  found = by_rank(num_processes, case_name(model, mesh, layout))[0]
  wanted = reference(by_rank, model)
  for one, other in zip(found["weights"], wanted["weights"]):
    # Adam divides by the gradient's size, so that a tiny gradient carries
    # its rounding error into the weight.
    np.testing.assert_allclose(one, other, 1e-3, 1e-4)


@parametrize
def test_evaluate_and_predict_after_training_equal_one_process(
    by_rank, num_processes, model, mesh, layout):
  found = by_rank(num_processes, case_name(model, mesh, layout))[0]
  wanted = reference(by_rank, model)
  for name in ("evaluate", "test_on_batch"):
    check_close(found[name], wanted[name], 1e-4)
  for name in ("predict", "predict_on_batch"):
    np.testing.assert_allclose(found[name], wanted[name], 1e-3, 1e-4)


@pytest.mark.parametrize("num_processes, mesh, layout", MASKS)
def test_dropout_masks_equal_one_process_in_every_bit(
    by_rank, num_processes, mesh, layout):
  wanted = by_rank(1, mask_name("", ""))[0]
  rows = 2.0 ** np.arange(MASK_ROWS)
  assert len(wanted) == MASK_STEPS
  for mask in wanted:
    assert mask.shape == (MASK_FEATURES,)
    np.testing.assert_array_equal(mask, np.round(mask))
    assert 0 <= mask.min() and mask.max() < 2 ** MASK_ROWS
    kept = (mask[:, None].astype(np.int64) // rows.astype(np.int64)) % 2
    assert 0.4 < kept.mean() < 0.6
  assert np.any(wanted[0] != wanted[1]) and np.any(wanted[1] != wanted[2])
  for masks in by_rank(num_processes, mask_name(mesh, layout)):
    for found, want in zip(masks, wanted):
      np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("num_processes, model, mesh, layout", STEPS)
def test_metrics_add_no_collective_to_a_step(
    by_rank, num_processes, model, mesh, layout):
  for found in by_rank(num_processes, step_name(model, mesh, layout)):
    assert found["metrics"] == found["loss alone"]
    # Nor does the loss: a sum of it would be a scalar.
    assert [] not in [shape for _, _, shape in found["loss alone"]]


def gradients_over(axis, shapes):
  return sorted(["allreduce_sum", [axis], shape] for shape in shapes)


WEIGHTS = [[64, 32], [32], [32, 8], [8]]
EXPECTED_STEPS = [
    # Nothing split: nothing to tell.
    (2, "dense", "data:2", "", []),
    # The gradient of each weight, no more.
    (2, "dense", "data:2", "batch:data", gradients_over("data", WEIGHTS)),
    (4, "dense", "data:4", "batch:data", gradients_over("data", WEIGHTS)),
    # The sum over hidden that makes the output.
    (2, "dense", "model:2", "hidden:model",
     [["allreduce_sum", ["model"], [16, 8]]]),
    # Gradients of slices over data, the output's sum over model.
    (4, "dense", "data:2,model:2", "batch:data,hidden:model", sorted(
        gradients_over("data", [[64, 16], [16], [16, 8], [8]])
        + [["allreduce_sum", ["model"], [8, 8]]])),
]


@pytest.mark.parametrize("num_processes, model, mesh, layout, wanted",
                         EXPECTED_STEPS)
def test_step_has_the_collectives_of_its_gradients_alone(
    by_rank, num_processes, model, mesh, layout, wanted):
  for found in by_rank(num_processes, step_name(model, mesh, layout)):
    assert sorted(found["metrics"]) == wanted
