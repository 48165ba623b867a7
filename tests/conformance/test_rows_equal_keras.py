"""Every row in one process against tf.keras with the same weights.

Keras never pads, and draws no masks of ours: what it agrees on, is right.
"""

import keras
import numpy as np
import pytest

import meshkeras as mk
from meshkeras import data
from tests.conformance import rows, table

ROWS = [pytest.param(row, id=row.name) for row in table.ROWS]
# Arguments that Keras does not have, or whose values we set ourselves.
OURS = ("name", "trainable", "dim", "vocabulary_dim")
KERAS_2 = keras.__version__.startswith("2.")


@keras.utils.register_keras_serializable()
class Scale(keras.layers.Layer):
  """Keras's own form of rows.Scale."""

  def build(self, input_shape):
    self.scale = self.add_weight(
        name="scale", shape=tuple(input_shape)[1:], initializer="ones")

  def call(self, inputs):
    return inputs * self.scale


def keras_twin(module, ours):
  """Returns Keras's object of the same class and arguments."""
  if isinstance(ours, str):
    return ours
  if isinstance(ours, rows.Scale):
    return Scale()
  config = ours.get_config()
  if module is keras.layers:
    config = {name: value for name, value in config.items()
              if name not in OURS and not name.endswith("_initializer")}
  if KERAS_2 and isinstance(ours, mk.layers.BatchNormalization):
    # Keras 2's kernel for images divides by n - 1, which Keras 3 does not.
    config["fused"] = False
  return getattr(module, type(ours).__name__)(**config)


def keras_model(row, trained):
  """Returns a compiled Keras model with the row's initial weights."""
  ours = row.model()
  made = [keras_twin(keras.layers, layer) for layer in ours.layers]
  model = keras.Sequential(
      [keras.layers.Input(ours.input.shape, dtype=ours.input.dtype)] + made)
  weighted = [keras_twin(keras.metrics, m) for m in row.metrics()]
  model.compile(
      optimizer=keras_twin(keras.optimizers, row.optimizer()),
      loss=keras_twin(keras.losses, row.loss()),
      metrics=[keras_twin(keras.metrics, m) for m in row.metrics()],
      weighted_metrics=weighted if row.weighted else None,
      run_eagerly=True)
  model.set_weights(trained.initial)
  return model


@pytest.fixture(scope="module", params=ROWS)
def twins(request):
  """(row, its Result, Keras's model before training, x, y, weights)."""
  row = request.param
  one = rows.result_of(row)
  model = keras_model(row, one)
  x, y, weights = row.arrays(model.output_shape[1:])
  if weights is not None and len(model.output_shape) > 2:
    # Of rows with several values each Keras wants it said.
    weights = weights[:, None]
  return row, one, model, x, y, weights


def check(found, expected, rtol=2e-5, atol=2e-6, named=""):
  np.testing.assert_allclose(found, expected, rtol, atol, err_msg=named)


def check_logs(found, expected, rtol=2e-5):
  assert sorted(found) == sorted(expected)
  for name, value in found.items():
    check(value, expected[name], rtol, named=name)


def test_predictions_equal(twins):
  _, one, model, x, _, _ = twins
  check(one.predicted, model.predict(
      x, batch_size=rows.BATCH_SIZE, verbose=0))


def test_evaluation_equals(twins):
  _, one, model, x, y, weights = twins
  found = model.evaluate(x, y, batch_size=rows.BATCH_SIZE, verbose=0,
                         sample_weight=weights, return_dict=True)
  check_logs(one.evaluated, found)


def test_training_equals(twins):
  row, one, model, x, y, weights = twins
  if row.random:
    pytest.skip("Keras draws other values")
  first = slice(0, rows.BATCH_SIZE)
  logs = model.train_on_batch(
      x[first], y[first], return_dict=True,
      sample_weight=None if weights is None else weights[first])
  check_logs(one.step_logs, logs)
  for name, value, expected in zip(
      one.names, one.stepped, model.get_weights()):
    check(value, expected, 1e-4, 1e-6, name)
  for epoch in range(2):
    order = data.permutation(rows.NUM_ROWS, rows.SEED, epoch)
    found = model.fit(
        x[order], y[order], batch_size=rows.BATCH_SIZE, verbose=0,
        shuffle=False,
        sample_weight=None if weights is None else weights[order]).history
    check_logs({name: values[epoch] for name, values in one.history.items()},
               {name: values[0] for name, values in found.items()}, 1e-4)
  for name, value, expected in zip(
      one.names, one.trained, model.get_weights()):
    check(value, expected, 1e-3, 1e-5, name)
