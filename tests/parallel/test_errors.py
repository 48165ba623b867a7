"""Bad input: its own message, on every process, at once; never a hang.

Meshes (B38), layouts (B39, B40), data (B07), words, order, and processes
that differ (B27), which is what makes jobs hang.
"""

import re

import pytest

from meshkeras import errors
from tests.parallel.errors_cases import RAISING

SUITE = "errors"
SECONDS = 5.0

# case -> (class, what its message must say); {n} is the number of
# processes, {last} the last rank.
EXPECTED = {
    "mesh_too_large": ("MeshError", [
        "Mesh 'data:{n},model:2' needs {twice} processes, one per processor; "
        "this job has {n}", "horovodrun -np {twice}"]),
    "mesh_too_small": ("MeshError", [
        "Mesh 'data:1' needs 1 ", "this job has {n}"]),
    "mesh_of_256": ("MeshError", [
        "needs 256 processes", "this job has {n}"]),
    "mesh_simulated": ("MeshError", [
        "simulate=True", "this job has {n}"]),
    "not_divisible": ("LayoutError", [
        "pixels=9 is split over axis 'model' of size {n}, which does not "
        "divide it", "Sizes that work near it: 8 or {nine_up}",
        "classes=3 is split over axis 'model' of size {n}", "Dense 'first'",
        "Dense 'last'", "first/kernel", "remove classes:model"]),
    "rule_without_dimension": ("LayoutError", [
        "rule hiden:model: no tensor of the model has a dimension 'hiden'",
        "did you mean 'hidden'?"]),
    "rule_without_axis": ("LayoutError", [
        "rule hidden:modle: the mesh has no axis 'modle'",
        "did you mean 'model'?"]),
    "two_dims_on_one_axis": ("LayoutError", [
        "Dense 'first': first/kernel", "[pixels=8, hidden=16]",
        "pixels and hidden are both split over axis 'model'"]),
    "lengths_differ": ("DataError", [
        "fit: x with 12 rows, y with 10 rows"]),
    "empty_data": ("DataError", ["fit: x", "(0, 8)", "no rows"]),
    "empty_predict": ("DataError", ["predict: x", "(0, 8)", "no rows"]),
    "lengths_differ_on_the_last_rank": ("DataError", [
        "rank {last} of {n}: fit: x with 12 rows, y with 11 rows"]),
    "other_length_on_the_last_rank": ("ProcessSetError", [
        "differs between processes", "12", "11", "rank {last}"]),
    "label_too_large": ("DataError", [
        "label 4", "from 0 to 3", "rank 0 of {n}: fit: y"]),
    "one_label_too_large": ("DataError", [
        "rank {last} of {n}: fit: y", "label 4", "from 0 to 3"]),
    "one_label_negative_on_rank_0": ("DataError", [
        "rank 0 of {n}: fit: y", "label -1 at row 0", "from 0 to 3"]),
    "label_in_validation_data": ("DataError", [
        "fit: validation_data: y", "label 4", "from 0 to 3"]),
    "wrong_shape": ("DataError", [
        "fit: x: an array of shape (12, 16)", "(rows, pixels=8)"]),
    "wrong_shape_on_the_last_rank": ("DataError", [
        "rank {last} of {n}: fit: x: an array of shape (12, 7)",
        "(rows, pixels=8)"]),
    "wrong_dtype": ("DataError", ["fit: x", "dtype <U", "numbers"]),
    "wrong_target_shape": ("DataError", [
        "fit: y: an array of shape (12, 4)", "(rows)"]),
    "no_targets": ("DataError", ["fit: y: None given"]),
    "unknown_keyword_of_fit": ("ArgumentError", [
        "fit: keyword 'epoch'", "did you mean 'epochs'?"]),
    "unknown_keyword_of_compile": ("ArgumentError", [
        "compile: keyword 'optimiser'", "did you mean 'optimizer'?"]),
    "unknown_keyword_of_a_layer": ("ArgumentError", [
        "Dense: keyword 'activaton'", "did you mean 'activation'?"]),
    "unknown_loss": ("ArgumentError", [
        "loss 'mean_square_error'", "'mean_squared_error'"]),
    "bad_batch_size": ("ArgumentError", ["batch_size: 0 given"]),
    "fit_before_compile": ("OrderError", [
        "net: fit called before compile", "Call model.compile"]),
    "evaluate_before_compile": ("OrderError", [
        "net: evaluate called before compile"]),
    "predict_before_compile": ("OrderError", [
        "net: predict called before compile"]),
    "weights_before_compile": ("OrderError", ["net: ", "compile"]),
    "fit_without_optimizer": ("OrderError", [
        "net: fit called", "without an optimizer"]),
    "extra_layer_on_rank_0": ("ProcessSetError", [
        "First difference: rank 0 has weight dense_1/kernel [hidden=16, "
        "middle=16], rank 1 has weight dense_1/kernel [hidden=16, "
        "classes=4]"]),
    "other_order_on_the_last_rank": ("ProcessSetError", [
        "rank 0 has weight wide/kernel [pixels=8, wide=32], rank {last} has "
        "weight slim/kernel [pixels=8, slim=8]"]),
    "other_names_on_the_last_rank": ("ProcessSetError", [
        "rank 0 has weight one/kernel [pixels=8, one=8], rank {last} has "
        "weight two/kernel [pixels=8, two=8]"]),
    "other_size_on_the_last_rank": ("ProcessSetError", [
        "[pixels=8, hidden=16], rank {last} has weight first/kernel "
        "[pixels=8, hidden=32]"]),
    "other_classes_on_the_last_rank": ("ProcessSetError", [
        "classes=4", "rank {last} has", "classes=5"]),
    "other_layout_on_the_last_rank": ("ProcessSetError", [
        "layout", "batch:data", "rank {last} has"]),
    "other_mesh_on_the_last_rank": ("ProcessSetError", [
        "mesh", "data:{n}", "rank {last} has"]),
    "other_seed_on_the_last_rank": ("ProcessSetError", [
        "seed", "rank 0 has", "4]", "rank {last} has", "5]"]),
    "other_batch_size_on_the_last_rank": ("ProcessSetError", [
        "fit: an argument differs", "rank {last} has"]),
    "more_epochs_on_the_last_rank": ("ProcessSetError", [
        "fit: an argument differs", "rank {last} has"]),
    "other_rate_on_the_last_rank": ("ProcessSetError", [
        "fit: an argument differs", "'learning_rate': 0.1",
        "rank {last} has", "'learning_rate': 0.2"]),
    "other_rate_after_restore_on_the_last_rank": ("ProcessSetError", [
        "restore: the optimizer or the place in the training differs",
        "'learning_rate': 0.1", "'momentum': 0.5", "rank {last} has",
        "'momentum': 0.9"]),
    "load_weights_on_rank_0_alone": ("ProcessSetError", [
        "rank 0 in load_weights, rank 1 in fit.", "`if rank == 0`"]),
    "get_weights_on_rank_0_alone": ("ProcessSetError", [
        "rank 0 in get_weights, rank 1 in evaluate."]),
    "set_weights_on_rank_0_alone": ("ProcessSetError", [
        "rank 0 in set_weights, rank 1 in predict."]),
    "save_in_a_callback_on_rank_0_alone": ("ProcessSetError", [
        "rank 0 in fit > save_weights, rank 1 in fit."]),
    "other_shape_for_set_weights_on_the_last_rank": ("DimensionError", [
        "set_weights got 4 arrays for 4 weights; first/kernel: (8, 16) "
        "expected, (16, 8) given"]),
    "no_path_on_the_last_rank": ("ArgumentError", [
        "save: path=None given; accepted is the path of a directory"]),
    "asynchronous_on_the_last_rank_alone": ("ProcessSetError", [
        "save: the directory, asynchronous or", "False", "rank {last} has",
        "True"]),
    "strict_on_the_last_rank_alone": ("ProcessSetError", [
        "load_weights: strict differs", "rank 0 has False",
        "rank {last} has True"]),
    "mesh_for_load_model_on_the_last_rank": ("MeshError", [
        "needs", "this job has {n}."]),
    "saving_after_other_batches_on_the_last_rank": ("ProcessSetError", [
        "fit: an argument differs", "save_freq=3", "rank {last} has",
        "save_freq=2"]),
    "negative_epochs_on_the_last_rank": ("ArgumentError", [
        "fit: epochs=-1 given; accepted is a whole number of at least 0"]),
    "bad_layout_on_the_last_rank": ("LayoutError", ["'hiden'"]),
    "other_values_for_set_weights_on_the_last_rank": ("ProcessSetError", [
        "set_weights: checksums of the values differs", "rank {last} has"]),
}
parametrize = pytest.mark.parametrize("num_processes", [2, 4])


def test_every_case_has_its_message():
  assert sorted(EXPECTED) == sorted(call.__name__ for call in RAISING)


def without_rank(outcome):
  """The message; the process that failed alone does not name itself."""
  return re.sub(r"^rank \d+ of \d+, in [^:]*: ", "", outcome["message"])


@parametrize
@pytest.mark.parametrize("case", EXPECTED)
def test_bad_input_raises_the_same_on_every_process(
    by_rank, num_processes, case):
  class_name, texts = EXPECTED[case]
  assert issubclass(getattr(errors, class_name), errors.MeshKerasError)
  outcomes = by_rank(num_processes, case)
  values = {"n": num_processes, "last": num_processes - 1,
            "twice": 2 * num_processes,
            "nine_up": -(-9 // num_processes) * num_processes}
  for outcome in outcomes:
    assert outcome["error"] == class_name, outcome
    assert without_rank(outcome) == without_rank(outcomes[0])
    for text in texts:
      assert text.format(**values) in outcome["message"]
    assert outcome["seconds"] < SECONDS, outcome


@parametrize
def test_messages_differ_between_faults(by_rank, num_processes):
  messages = [by_rank(num_processes, case)[0]["message"] for case in EXPECTED]
  assert len(set(messages)) == len(messages)


@parametrize
def test_fit_works_after_all_these_errors(by_rank, num_processes):
  values = by_rank(num_processes, "still works")
  assert len(values) == num_processes and len(values[0]) == 2
  assert all(value == values[0] for value in values)
