"""Sample weights, class weights, and both together."""

import numpy as np
import pytest

from meshkeras.data import BatchReader, ClassWeightSource, RowOrder, row_weights
from meshkeras.errors import ArgumentError, DataError

LABELS = np.array([0, 2, 1, 2, 0])


@pytest.mark.parametrize("labels", [
    LABELS,
    LABELS[:, None],
    np.eye(3)[LABELS],
    LABELS.astype(np.float64),
    LABELS.tolist(),
])
def test_class_weights_of_every_form_of_label(labels):
  source = ClassWeightSource(labels, {0: 2.0, 2: 0.5})
  np.testing.assert_array_equal(
      source.read(slice(0, 5)), [2, 0.5, 1, 0.5, 2])
  np.testing.assert_array_equal(source.read(np.array([2, 1])), [1, 0.5])
  assert source.num_rows == 5


@pytest.mark.parametrize("class_weight", [
    [1.0, 2.0], {"a": 1.0}, {0: "a"}, {0: float("nan")}, {0.5: 1.0}, 3])
def test_bad_class_weight_is_refused(class_weight):
  with pytest.raises(ArgumentError, match="class number to weight"):
    ClassWeightSource(LABELS, class_weight)


def test_class_weight_of_labels_per_position_is_refused():
  with pytest.raises(DataError, match=r"\(5, 2, 3\)"):
    ClassWeightSource(np.zeros((5, 2, 3)), {0: 1.0})


def test_sample_and_class_weights_are_multiplied():
  weights = row_weights(
      "fit", 5, sample_weight=[1, 2, 3, 4, 5], labels=LABELS,
      class_weight={2: 10})
  np.testing.assert_array_equal(weights.read(slice(0, 5)), [1, 20, 3, 40, 5])
  assert weights.num_rows == 5


def test_no_weights_are_ones():
  weights = row_weights("fit", 5)
  np.testing.assert_array_equal(weights.read(slice(3, 5)), [1, 1])
  np.testing.assert_array_equal(weights.read(np.array([4, 4, 0])), [1, 1, 1])


def test_sample_weight_of_wrong_shape_is_refused():
  with pytest.raises(DataError, match=r"fit: sample_weight: .*\(5, 2\)"):
    row_weights("fit", 5, sample_weight=np.ones((5, 2)))


@pytest.mark.parametrize("class_weight", [None, {0: 3.0}])
def test_pad_rows_weigh_zero(class_weight):
  weights = row_weights(
      "fit", 5, labels=LABELS, class_weight=class_weight)
  reader = BatchReader(weights, RowOrder(5, 4), padded_batch=6)
  last = reader.read(1, [(0, 6)])
  np.testing.assert_array_equal(
      last, [3 if class_weight else 1, 0, 0, 0, 0, 0])
  assert last.dtype == np.float32
