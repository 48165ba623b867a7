"""Losses against Keras, at every layout, and with extreme logits."""

import re

import keras
import numpy as np
import pytest

from meshkeras import losses
from meshkeras.errors import ArgumentError
from meshkeras.layers import activations
from meshkeras.upstream import mtf, tf
from tests.helpers import MeshCase, run_cases, run_on_mesh

RANDOM = np.random.RandomState(0)
LOGITS = (3 * RANDOM.standard_normal([6, 8])).astype(np.float32)
PROBABILITIES = (np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True))
SIGMOIDS = (1 / (1 + np.exp(-LOGITS))).astype(np.float32)
LABELS = RANDOM.randint(0, 8, [6]).astype(np.int32)
ONE_HOT = np.eye(8, dtype=np.float32)[LABELS]
BITS = RANDOM.randint(0, 2, [6, 8]).astype(np.float32)
DIMS = "batch classes"
LAYOUTS = [("", ""), ("a:2", "batch:a"), ("a:2", "classes:a"),
           ("a:4", "classes:a"), ("a:2,b:4", "batch:a,classes:b")]

# Name, class, arguments, y, predictions.
CASES = {
    "mse": ("MeanSquaredError", {}, BITS, LOGITS),
    "bce logits": ("BinaryCrossentropy", {"from_logits": True}, BITS, LOGITS),
    "bce smoothed logits": (
        "BinaryCrossentropy", {"from_logits": True, "label_smoothing": 0.2},
        BITS, LOGITS),
    "bce": ("BinaryCrossentropy", {}, BITS, SIGMOIDS),
    "bce smoothed": ("BinaryCrossentropy", {"label_smoothing": 0.2}, BITS,
                     SIGMOIDS),
    "categorical logits": (
        "CategoricalCrossentropy", {"from_logits": True}, ONE_HOT, LOGITS),
    "categorical smoothed logits": (
        "CategoricalCrossentropy",
        {"from_logits": True, "label_smoothing": 0.1}, ONE_HOT, LOGITS),
    "categorical soft targets": (
        "CategoricalCrossentropy", {"from_logits": True}, PROBABILITIES[::-1],
        LOGITS),
    "categorical": ("CategoricalCrossentropy", {}, ONE_HOT, PROBABILITIES),
    "categorical of no distribution": (
        "CategoricalCrossentropy", {}, ONE_HOT, 3 * PROBABILITIES),
    "categorical smoothed": (
        "CategoricalCrossentropy", {"label_smoothing": 0.1}, ONE_HOT,
        PROBABILITIES),
    "sparse logits": ("SparseCategoricalCrossentropy",
                      {"from_logits": True}, LABELS, LOGITS),
    "sparse": ("SparseCategoricalCrossentropy", {}, LABELS, PROBABILITIES),
    "sparse of no distribution": (
        "SparseCategoricalCrossentropy", {}, LABELS, 0.5 * PROBABILITIES),
}


def _total(loss, weights=None):
  """Returns build(mesh, y_true, y_pred): the loss as a model reduces it."""
  def build(mesh, y_true, y_pred):
    values = loss.call(y_true, y_pred)
    if weights is not None:
      values *= mtf.import_tf_tensor(
          mesh, tf.constant(weights), mtf.Shape([("batch", len(weights))]))
    # Scaled before the sum, which so stays unreduced.
    return mtf.reduce_sum(values * (1.0 / values.shape.size))
  return build


def _y_dims(y):
  return DIMS if y.ndim == 2 else "batch"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("case", sorted(CASES))
def test_loss_equals_keras_at_every_layout(case, weighted):
  name, config, y, predictions = CASES[case]
  weights = np.linspace(0, 2, 6).astype(np.float32) if weighted else None
  loss = getattr(losses, name)(**config)
  results = run_cases([
      MeshCase(_total(loss, weights), ((y, _y_dims(y)), (predictions, DIMS)),
               *layout) for layout in LAYOUTS])
  given = tf.constant(predictions)
  with tf.GradientTape() as tape:
    tape.watch(given)
    value = getattr(keras.losses, name)(**config)(
        tf.constant(y), given, sample_weight=weights)
  gradient = tape.gradient(value, given) * results[0].grad_ys[0]
  for layout, result in zip(LAYOUTS, results):
    np.testing.assert_allclose(
        result.outputs[0], value.numpy(), rtol=2e-5, err_msg=str(layout))
    np.testing.assert_allclose(
        result.gradients[1], gradient.numpy(), rtol=3e-4, atol=1e-6,
        err_msg=str(layout))


def _logsumexp(x):
  x = x.astype(np.float64)
  most = x.max(-1, keepdims=True)
  return most[..., 0] + np.log(np.exp(x - most).sum(-1))


@pytest.mark.parametrize("scale", [1e4, -1e4, 3e3])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [
    "SparseCategoricalCrossentropy", "CategoricalCrossentropy"])
def test_cross_entropy_of_extreme_logits_equals_float64(name, layout, scale):
  logits = (scale * RANDOM.standard_normal([6, 8])).astype(np.float32)
  logits[0] = scale
  logits[1] = [scale, -scale] * 4
  y = LABELS if name.startswith("Sparse") else ONE_HOT
  loss = getattr(losses, name)(from_logits=True)
  result = run_on_mesh(
      lambda mesh, y, x: loss.call(y, x), [(y, _y_dims(y)), (logits, DIMS)],
      *layout)
  wanted = _logsumexp(logits) - logits.astype(np.float64)[
      np.arange(6), LABELS]
  np.testing.assert_allclose(result.outputs[0], wanted, rtol=1e-6, atol=1e-6)
  shifted = np.exp(logits.astype(np.float64) - _logsumexp(logits)[:, None])
  np.testing.assert_allclose(
      result.gradients[1],
      (shifted - ONE_HOT) * result.grad_ys[0][:, None], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_binary_cross_entropy_of_extreme_logits_equals_float64(layout):
  logits = np.array([[1e4, -1e4, 30, -30, 0, 1e-3, 5e3, -5e3]] * 6,
                    np.float32)
  loss = losses.BinaryCrossentropy(from_logits=True)
  result = run_on_mesh(lambda mesh, y, x: loss.call(y, x),
                       [(BITS, DIMS), (logits, DIMS)], *layout)
  x = logits.astype(np.float64)
  wanted = np.maximum(x, 0) - x * BITS + np.log1p(np.exp(-np.abs(x)))
  np.testing.assert_allclose(result.outputs[0], wanted, rtol=1e-6, atol=1e-9)
  assert np.isfinite(result.gradients[1]).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name,activation,y", [
    ("SparseCategoricalCrossentropy", "softmax", LABELS),
    ("CategoricalCrossentropy", "softmax", ONE_HOT),
    ("BinaryCrossentropy", "sigmoid", BITS)])
def test_loss_behind_an_activation_is_computed_from_its_logits(
    name, activation, y, layout):
  logits = (300 * LOGITS).astype(np.float32)

  def build(activate, from_logits):
    loss = getattr(losses, name)(from_logits=from_logits)
    return lambda mesh, y, x: loss.call(y, activate(x))

  inputs = ((y, _y_dims(y)), (logits, DIMS))
  behind, exact = run_cases([
      MeshCase(build(activations.get(activation), False), inputs, *layout),
      MeshCase(build(lambda x: x, True), inputs, *layout)])
  np.testing.assert_array_equal(behind.outputs[0], exact.outputs[0])
  np.testing.assert_array_equal(behind.gradients[1], exact.gradients[1])
  assert np.isfinite(behind.outputs[0]).all()


@pytest.mark.parametrize("case,split_batch,split_classes", [
    ("mse", 0, 0), ("bce logits", 0, 0), ("bce", 0, 0),
    ("sparse logits", 0, 2), ("categorical logits", 0, 2)])
def test_loss_adds_no_collective_but_those_of_its_classes(
    case, split_batch, split_classes):
  name, config, y, predictions = CASES[case]
  build = _total(getattr(losses, name)(**config))
  for layout, expected in ((("a:2", "batch:a"), split_batch),
                           (("a:2", "classes:a"), split_classes)):
    result = run_on_mesh(
        lambda mesh, y, x: mtf.gradients([build(mesh, y, x)], [x])[0],
        [(y, _y_dims(y)), (predictions, DIMS)], *layout, gradients=False)
    assert len(result.collectives) == expected, result.collectives


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_loss_takes_other_types_of_prediction(dtype):
  for name, y in (("MeanSquaredError", BITS), ("BinaryCrossentropy", BITS),
                  ("SparseCategoricalCrossentropy", LABELS),
                  ("CategoricalCrossentropy", ONE_HOT)):
    loss = getattr(losses, name)()
    x = PROBABILITIES.astype(dtype)
    results = run_cases([
        MeshCase(_total(loss), ((y, _y_dims(y)), (x, DIMS)), *layout)
        for layout in (LAYOUTS[0], LAYOUTS[2])])
    assert np.isfinite(results[0].outputs[0]).all(), name
    np.testing.assert_allclose(
        results[1].outputs[0], results[0].outputs[0], rtol=1e-2)


def test_sequences_have_a_loss_per_position():
  x = RANDOM.standard_normal([2, 3, 8]).astype(np.float32)
  y = RANDOM.randint(0, 8, [2, 3]).astype(np.int32)
  loss = losses.SparseCategoricalCrossentropy(from_logits=True)
  result = run_on_mesh(
      lambda mesh, y, x: loss.call(y, x),
      [(y, "batch words"), (x, "batch words classes")], "a:2", "classes:a")
  wanted = keras.losses.sparse_categorical_crossentropy(
      y, tf.constant(x), from_logits=True)
  np.testing.assert_allclose(result.outputs[0], wanted.numpy(), rtol=1e-5)


SHAPE = mtf.Shape([("batch", 4), ("classes", 10)])


@pytest.mark.parametrize("labels,text", [
    ([0, 9, 3], None),
    ([0, 10, 3], "label 10 at row 1 given; accepted are whole numbers from "
     r"0 to 9 for predictions \[classes=10\]"),
    ([-1], "label -1 at row 0"),
    ([1.5], "label 1.5 at row 0"),
    ([[1, 2]], "targets of shape .2,. per row given; accepted is ..")])
def test_sparse_labels_out_of_range_are_told(labels, text):
  loss = losses.SparseCategoricalCrossentropy()
  found = loss.check_target(np.array(labels), SHAPE)
  if text is None:
    assert found is None
  else:
    assert re.search(text, found)


def test_targets_of_another_shape_are_told():
  loss = losses.MeanSquaredError()
  assert loss.check_target(np.zeros([3, 10]), SHAPE) is None
  assert "(9,) per row given; accepted is (10,)" in loss.check_target(
      np.zeros([3, 9]), SHAPE)
  assert loss.target_shape(SHAPE) == SHAPE
  assert losses.SparseCategoricalCrossentropy().target_shape(
      SHAPE) == mtf.Shape([("batch", 4)])


@pytest.mark.parametrize("identifier,cls", [
    ("mse", losses.MeanSquaredError),
    ("MeanSquaredError", losses.MeanSquaredError),
    ("bce", losses.BinaryCrossentropy),
    ("sparse_categorical_crossentropy",
     losses.SparseCategoricalCrossentropy),
    ({"class_name": "CategoricalCrossentropy",
      "config": {"label_smoothing": 0.5}}, losses.CategoricalCrossentropy),
    (losses.BinaryCrossentropy(), losses.BinaryCrossentropy),
    (lambda y_true, y_pred: y_pred, losses.FunctionLoss)])
def test_get_finds_a_loss(identifier, cls):
  loss = losses.get(identifier)
  assert type(loss) is cls
  if cls is not losses.FunctionLoss:
    assert type(loss).from_config(loss.get_config()).get_config() == (
        loss.get_config())


@pytest.mark.parametrize("make,text", [
    (lambda: losses.get("msee"), "loss 'msee' is not known; did you mean"),
    (lambda: losses.get(3), "loss=3 given"),
    (lambda: losses.MeanSquaredError(from_logits=True),
     "keyword 'from_logits'"),
    (lambda: losses.SparseCategoricalCrossentropy(label_smoothing=0.1),
     "keyword 'label_smoothing'"),
    (lambda: losses.BinaryCrossentropy(label_smoothing=2),
     "label_smoothing=2 given"),
    (lambda: losses.SparseCategoricalCrossentropy().call(
        None, mtf.zeros(mtf.Mesh(mtf.Graph(), "m"), [("batch", 4)])),
     r"predictions \[batch=4\] given")])
def test_wrong_loss_says_what_is_accepted(make, text):
  with pytest.raises(ArgumentError, match=text):
    make()
