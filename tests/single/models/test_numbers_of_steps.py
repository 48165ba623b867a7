"""How many steps and epochs run, and numbers that make no sense."""

import numpy as np
import pytest

import meshkeras as mk
from meshkeras import layers
from meshkeras.errors import ArgumentError

X = np.linspace(-1, 1, 20).reshape(10, 2).astype(np.float32)


def compiled():
  model = mk.Sequential([mk.Input((2,)), layers.Dense(2)])
  model.compile("sgd", "mse")
  return model


class Steps(mk.callbacks.Callback):
  """Takes down what it is told of the steps."""

  def __init__(self):
    super().__init__()
    self.train, self.test, self.predict = [], [], []

  def on_train_batch_end(self, batch, logs=None):
    self.train.append(batch)

  def on_test_batch_end(self, batch, logs=None):
    self.test.append(batch)

  def on_predict_batch_end(self, batch, logs=None):
    self.predict.append(batch)


def test_steps_are_as_many_as_asked_for():
  model, steps = compiled(), Steps()
  model.fit(X, X, batch_size=4, epochs=2, verbose=0, steps_per_epoch=2,
            validation_data=(X, X), validation_steps=1, callbacks=[steps])
  assert steps.params["steps"] == 2
  assert (steps.train, steps.test) == ([0, 1] * 2, [0] * 2)
  loss = model.evaluate(X, X, batch_size=4, verbose=0, steps=2)
  assert loss == pytest.approx(
      model.evaluate(X[:8], X[:8], batch_size=4, verbose=0))
  assert model.predict(X, batch_size=4, verbose=0, steps=3).shape == (10, 2)
  assert model.predict(X, batch_size=4, verbose=0, steps=2).shape == (8, 2)


def test_no_epochs_train_nothing():
  model = compiled()
  before = model.get_weights()
  assert model.fit(X, X, epochs=0, verbose=0).history == {}
  for old, new in zip(before, model.get_weights()):
    np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("steps", [0, -1, 4, 2.5, "2", True])
def test_steps_that_the_data_does_not_have_are_refused(steps):
  model = compiled()
  told = ("=%r given; accepted is a whole number from 1 to 3, the steps of "
          "10 rows at batch_size 4, or None for all." % (steps,))
  for where, act in {
      "fit: steps_per_epoch": lambda: model.fit(
          X, X, batch_size=4, verbose=0, steps_per_epoch=steps),
      "fit: validation_data: validation_steps": lambda: model.fit(
          X, X, batch_size=4, verbose=0, validation_data=(X, X),
          validation_steps=steps),
      "evaluate: steps": lambda: model.evaluate(
          X, X, batch_size=4, verbose=0, steps=steps),
      "predict: steps": lambda: model.predict(
          X, batch_size=4, verbose=0, steps=steps)}.items():
    with pytest.raises(ArgumentError) as caught:
      act()
    assert where + told in str(caught.value), str(caught.value)
  assert model.iterations == 0


@pytest.mark.parametrize("name,value,least", [
    ("epochs", -1, 0), ("epochs", 1.5, 0), ("epochs", "2", 0),
    ("initial_epoch", -1, 0), ("initial_epoch", None, 0),
    ("validation_batch_size", 0, 1), ("validation_freq", 0, 1)])
def test_numbers_that_make_no_sense_are_refused(name, value, least):
  with pytest.raises(ArgumentError) as caught:
    compiled().fit(X, X, verbose=0, **{name: value})
  assert ("fit: %s=%r given; accepted is a whole number of at least %d."
          % (name, value, least)) in str(caught.value)
