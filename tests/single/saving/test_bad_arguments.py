"""What is no path, no weights, no custom objects: an ArgumentError."""

import numpy as np
import pytest

import meshkeras as mk
from meshkeras.errors import ArgumentError
from tests.single.saving import small_model


@pytest.fixture(scope="module")
def model():
  return small_model.make()


@pytest.mark.parametrize("path", [b"bytes", None, 5, "", "nul\0", True])
def test_what_is_no_path_is_refused(model, path):
  for act in (model.save, model.save_weights, model.load_weights,
              model.restore, mk.load_model, mk.latest_checkpoint,
              mk.callbacks.ModelCheckpoint, mk.callbacks.BackupAndRestore):
    with pytest.raises(ArgumentError) as caught:
      act(path)
    assert ("=%r given; accepted is the path of a directory, as text or "
            "pathlib.Path." % (path,)) in str(caught.value)


@pytest.mark.parametrize("change, told", [
    (lambda w: None, "NoneType given"), (lambda w: 3, "int given"),
    (lambda w: [np.full(a.shape, "x") for a in w], "list given (str"),
    (lambda w: [np.full(a.shape, None) for a in w], "list given (object"),
    (lambda w: [[[1], [1, 2]]] + w[1:], "list given (")])
def test_what_is_no_list_of_numbers_sets_no_weights(model, change, told):
  before = model.get_weights()
  with pytest.raises(ArgumentError) as caught:
    model.set_weights(change(before))
  assert "set_weights: " + told in str(caught.value)
  assert "accepted is a list of arrays of numbers" in str(caught.value)
  for old, new in zip(before, model.get_weights()):
    np.testing.assert_array_equal(old, new)


def test_custom_objects_are_a_dictionary(tmp_path):
  with pytest.raises(ArgumentError, match=r"custom_objects=\[1\] given"):
    mk.load_model(tmp_path, custom_objects=[1])
