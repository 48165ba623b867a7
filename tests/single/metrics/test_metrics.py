"""Metrics against Keras, as sums over batches and at every layout."""

import keras
import numpy as np
import pytest

from meshkeras import losses, metrics
from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.layers import activations
from meshkeras.upstream import mtf, tf
from tests.helpers import MeshCase, run_cases, run_on_mesh

RANDOM = np.random.RandomState(0)
LAYOUTS = [("", ""), ("a:2", "batch:a"), ("a:2", "classes:a"),
           ("a:4", "classes:a"), ("a:2,b:2", "batch:a,classes:b")]
SCORES = RANDOM.standard_normal([6, 8]).astype(np.float32)
LABELS = np.where(RANDOM.rand(6) < 0.5, SCORES.argmax(1),
                  RANDOM.randint(0, 8, [6])).astype(np.int32)
ONE_HOT = np.eye(8, dtype=np.float32)[LABELS]
BITS = RANDOM.randint(0, 2, [6, 8]).astype(np.float32)
UNIT = RANDOM.rand(6, 8).astype(np.float32)
ROUNDED = np.round(SCORES)

CASES = {
    "mse": ("MeanSquaredError", {}, BITS, SCORES),
    "mae": ("MeanAbsoluteError", {}, BITS, SCORES),
    "accuracy": ("Accuracy", {}, np.round(SCORES + 0.2 * UNIT), ROUNDED),
    "binary": ("BinaryAccuracy", {}, BITS, UNIT),
    "binary above 0.7": ("BinaryAccuracy", {"threshold": 0.7}, BITS, UNIT),
    "categorical": ("CategoricalAccuracy", {}, ONE_HOT, SCORES),
    "categorical soft": ("CategoricalAccuracy", {}, UNIT, SCORES),
    "sparse": ("SparseCategoricalAccuracy", {}, LABELS, SCORES),
    "sparse of ties": ("SparseCategoricalAccuracy", {}, LABELS, ROUNDED),
}


def _dims(y):
  return "batch classes" if y.ndim == 2 else "batch"


def _build(metric):
  return lambda mesh, y, x, weights: metric.sums(y, x, weights)


@pytest.mark.parametrize("case", sorted(CASES))
def test_metric_equals_keras_at_every_layout(case):
  name, config, y, x = CASES[case]
  metric = getattr(metrics, name)(**config)
  weights = np.array([1, 0, 1, 1, 0, 1], np.float32)
  inputs = ((y, _dims(y)), (x, _dims(x)), (weights, "batch"))
  results = run_cases([
      MeshCase(_build(metric), inputs, *layout, gradients=False)
      for layout in LAYOUTS])
  wanted = getattr(keras.metrics, name)(**config)
  wanted.update_state(y, x, sample_weight=weights if y.ndim == 1 or (
      "Categorical" in name) else weights[:, None])
  for layout, result in zip(LAYOUTS, results):
    totals = [float(total) for total in result.outputs]
    np.testing.assert_allclose(
        metric.result(totals), float(wanted.result()), rtol=1e-6,
        err_msg=str(layout))


def test_sums_of_batches_are_the_sums_of_all_rows():
  metric = metrics.SparseCategoricalAccuracy()
  ones = np.ones([6], np.float32)
  batches = [(LABELS[i:i + 2], SCORES[i:i + 2], ones[i:i + 2])
             for i in (0, 2, 4)]
  results = run_cases([
      MeshCase(_build(metric),
               ((y, "batch"), (x, "batch classes"), (w, "batch")),
               gradients=False) for y, x, w in batches])
  totals = np.sum([result.outputs for result in results], axis=0)
  assert metric.result(list(totals)) == (SCORES.argmax(1) == LABELS).mean()
  assert metric.result([0.0, 0.0]) == 0.0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_equal_scores_the_first_counts(layout):
  scores = np.zeros([4, 8], np.float32)
  scores[1, [3, 6]] = 1
  scores[2] = -1e4
  scores[3, [0, 7]] = np.inf
  labels = np.array([0, 3, 0, 0], np.int32)
  result = run_on_mesh(
      _build(metrics.SparseCategoricalAccuracy()),
      [(labels, "batch"), (scores, "batch classes"),
       (np.ones([4], np.float32), "batch")], *layout, gradients=False)
  assert list(result.outputs) == [4, 4]


def _train(loss, metric, activate=None):
  """Returns build of what a training step needs: gradient and sums."""
  def build(mesh, y, x, weights):
    prediction = activate(x) if activate else x
    values = loss.call(y, prediction)
    total = mtf.reduce_sum(values * (1.0 / values.shape.size))
    found = mtf.gradients([total], [x])
    if metric is not None:
      found += metric.sums(y, prediction, weights)
    return found
  return build


@pytest.mark.parametrize("layout", LAYOUTS[1:])
@pytest.mark.parametrize("loss,metric,y", [
    ("MeanSquaredError", "MeanSquaredError", BITS),
    ("MeanSquaredError", "MeanAbsoluteError", BITS),
    ("BinaryCrossentropy", "BinaryAccuracy", BITS),
    ("SparseCategoricalCrossentropy", "SparseCategoricalAccuracy", LABELS)])
@pytest.mark.parametrize("activation", [None, "softmax"])
def test_metric_adds_no_collective_to_a_training_step(
    loss, metric, y, layout, activation):
  sparse = loss.startswith("Sparse")
  if activation and not sparse:
    activation = "sigmoid"
  config = {} if activation or "Square" in loss else {"from_logits": True}
  inputs = ((y, _dims(y)), (SCORES, "batch classes"),
            (np.ones([6], np.float32), "batch"))
  plain, measured = [
      run_on_mesh(_train(getattr(losses, loss)(**config), found,
                         activation and activations.get(activation)),
                  inputs, *layout, gradients=False)
      for found in (None, getattr(metrics, metric)())]
  assert measured.collectives == plain.collectives
  if not sparse:
    assert plain.collectives == []


@pytest.mark.parametrize("layout", [
    ("a:2", "batch:a"), ("a:2", "classes:a")])
def test_categorical_accuracy_adds_no_collective(layout):
  loss = losses.CategoricalCrossentropy(from_logits=True)
  inputs = ((ONE_HOT, "batch classes"), (SCORES, "batch classes"),
            (np.ones([6], np.float32), "batch"))
  plain, measured = [
      run_on_mesh(_train(loss, metric), inputs, *layout, gradients=False)
      for metric in (None, metrics.CategoricalAccuracy())]
  assert sorted(measured.collectives) == sorted(plain.collectives)


@pytest.mark.parametrize("outputs,targets,cls", [
    ([4, 1], [4, 1], metrics.BinaryAccuracy),
    ([4, 1], [4], metrics.BinaryAccuracy),
    ([4, 3], [4], metrics.SparseCategoricalAccuracy),
    ([4, 3], [4, 1], metrics.SparseCategoricalAccuracy),
    ([4, 5, 3], [4, 5], metrics.SparseCategoricalAccuracy),
    ([4, 3], [4, 3], metrics.CategoricalAccuracy)])
@pytest.mark.parametrize("name", ["accuracy", "acc"])
def test_accuracy_means_what_keras_means(name, outputs, targets, cls):
  shapes = [mtf.Shape([("d%d" % i, size) for i, size in enumerate(sizes)])
            for sizes in (outputs, targets)]
  metric = metrics.get(name, *shapes)
  assert type(metric) is cls and metric.name == name


@pytest.mark.parametrize("identifier,cls,name", [
    ("mse", metrics.MeanSquaredError, "mse"),
    ("mean_absolute_error", metrics.MeanAbsoluteError, "mean_absolute_error"),
    (metrics.BinaryAccuracy(threshold=0.2), metrics.BinaryAccuracy,
     "binary_accuracy"),
    (metrics.Mean(name="level"), metrics.Mean, "level"),
    ({"class_name": "Accuracy", "config": {"name": "hits"}},
     metrics.Accuracy, "hits")])
def test_get_finds_a_metric(identifier, cls, name):
  metric = metrics.get(identifier)
  assert type(metric) is cls and metric.name == name
  again = cls.from_config(metric.get_config())
  assert again.get_config() == metric.get_config()


def test_function_is_a_metric():
  def above(y_true, y_pred):
    return mtf.cast(mtf.greater(y_pred, y_true), tf.float32)

  metric = metrics.get(above)
  assert metric.name == "above"
  result = run_on_mesh(
      _build(metric), [(BITS, "batch classes"), (SCORES, "batch classes"),
                       (np.ones([6], np.float32), "batch")],
      "a:2", "classes:a", gradients=False)
  np.testing.assert_allclose(
      metric.result(result.outputs), (SCORES > BITS).mean(), rtol=1e-6)


@pytest.mark.parametrize("make,text", [
    (lambda: metrics.get("acuracy"), "metric 'acuracy' is not known; did"),
    (lambda: metrics.get(3), "metric 3 given"),
    (lambda: metrics.get("accuracy"), "'accuracy' given without shapes"),
    (lambda: metrics.BinaryAccuracy(treshold=1), "'treshold'.*'threshold'"),
    (lambda: metrics.BinaryAccuracy(threshold=3), "threshold=3 given")])
def test_wrong_metric_says_what_is_accepted(make, text):
  with pytest.raises(ArgumentError, match=text):
    make()


def test_targets_of_another_shape_are_told():
  with pytest.raises(DimensionError, match=r"targets \[batch=6\] given for"):
    run_on_mesh(
        _build(metrics.CategoricalAccuracy()),
        [(LABELS, "batch"), (SCORES, "batch classes"),
         (np.ones([6], np.float32), "batch")], gradients=False)
