"""Options of fit and evaluate mean what they mean in Keras 3."""

import keras
import numpy as np
import pytest

import meshkeras as mk
from meshkeras import layers

RANDOM = np.random.RandomState(0)
NUM_ROWS, CLASSES = 11, 4
X = RANDOM.standard_normal([NUM_ROWS, 8]).astype(np.float32)
Y = RANDOM.randint(0, CLASSES, NUM_ROWS)
WEIGHTS = RANDOM.uniform(0.2, 2.0, NUM_ROWS)
CLASS_WEIGHT = {0: 1.0, 1: 2.0, 2: 0.5, 3: 3.0}
METRICS = dict(metrics=["accuracy"], weighted_metrics=["accuracy"])

FITS = {
    "plain": {},
    "sample_weight": dict(sample_weight=WEIGHTS),
    "class_weight": dict(class_weight=CLASS_WEIGHT),
    "validation_data": dict(validation_data=(X[:5], Y[:5])),
    "validation_data with weights": dict(
        validation_data=(X[:5], Y[:5], WEIGHTS[:5])),
    "validation_split": dict(validation_split=0.3),
    "validation_split with weights": dict(
        validation_split=0.3, sample_weight=WEIGHTS),
    "validation_batch_size": dict(
        validation_data=(X, Y), validation_batch_size=3),
    "validation_steps": dict(validation_data=(X, Y), validation_steps=1),
    "validation_freq": dict(validation_data=(X, Y), validation_freq=2),
    "validation_freq as a list": dict(
        validation_data=(X, Y), validation_freq=[1, 3]),
    "initial_epoch": dict(initial_epoch=1),
    "a batch of all rows and more": dict(batch_size=64),
    "batches of one row": dict(batch_size=1, epochs=1),
}
LAYOUTS = ["", "batch:a,hidden:b"]
CASES = [(options, "") for options in FITS] + [
    (options, LAYOUTS[1]) for options in (
        "class_weight", "validation_data with weights", "validation_split",
        "batches of one row")]


def model(layout=""):
  mk.set_random_seed(7)
  made = mk.Sequential([
      mk.Input((8,), dims=("x",)),
      layers.Dense(8, activation="tanh", dim="hidden"),
      layers.Dense(CLASSES, dim="classes")])
  made.compile(
      optimizer=mk.optimizers.SGD(0.3),
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      mesh=mk.Mesh("a:2,b:2" if layout else "", simulate=True),
      layout=layout, **METRICS)
  return made


def keras_model(ours):
  made = keras.Sequential([
      keras.layers.Input((8,)),
      keras.layers.Dense(8, activation="tanh"),
      keras.layers.Dense(CLASSES)])
  made.compile(
      optimizer=keras.optimizers.SGD(0.3),
      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      run_eagerly=True, **METRICS)
  made.set_weights(ours.get_weights())
  return made


def check(found, expected):
  np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("options,layout", CASES)
def test_fit_equals_keras(options, layout):
  ours = model(layout)
  theirs = keras_model(ours)
  options = {**dict(batch_size=4, epochs=3, verbose=0, shuffle=False),
             **FITS[options]}
  found, expected = ours.fit(X, Y, **options), theirs.fit(X, Y, **options)
  assert found.epoch == expected.epoch
  assert sorted(found.history) == sorted(expected.history)
  for name, values in expected.history.items():
    check(found.history[name], values)
  for one, other in zip(ours.get_weights(), theirs.get_weights()):
    check(one, other)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_methods_on_data_equal_keras(layout):
  ours = model(layout)
  theirs = keras_model(ours)

  def check_logs(method, **options):
    # By name: Keras's list repeats a weighted metric of an ordinary one's
    # name.
    found, expected = (
        getattr(one, method)(X, Y, return_dict=True, **options)
        for one in (ours, theirs))
    assert sorted(found) == sorted(expected)
    check([found[name] for name in sorted(found)],
          [expected[name] for name in sorted(found)])

  check_logs("evaluate", verbose=0, batch_size=4)
  check_logs("evaluate", verbose=0, batch_size=4, steps=2)
  check_logs("evaluate", verbose=0, batch_size=3, sample_weight=WEIGHTS)
  check_logs("test_on_batch", sample_weight=WEIGHTS)
  for options in (dict(batch_size=4), dict(batch_size=4, steps=2)):
    check(ours.predict(X, verbose=0, **options),
          theirs.predict(X, verbose=0, **options))
  check(ours.predict_on_batch(X[:3]), theirs.predict_on_batch(X[:3]))
  check_logs("train_on_batch", class_weight=CLASS_WEIGHT)
  assert ours.evaluate(X, Y, verbose=0) == list(
      ours.evaluate(X, Y, verbose=0, return_dict=True).values())
