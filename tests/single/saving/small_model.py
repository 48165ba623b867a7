"""The small model and the data that the tests of saving share."""

import numpy as np

import meshkeras as mk
from meshkeras import layers

NUM_ROWS = 40
BATCH_SIZE = 8


def arrays(num_rows=NUM_ROWS):
  random = np.random.RandomState(5)
  return (random.standard_normal((num_rows, 8)).astype(np.float32),
          random.randint(0, 4, num_rows))


def make(mesh="", layout="", optimizer=None, **names):
  """Returns a compiled model on a simulated mesh."""
  model = mk.Sequential([
      mk.Input((8,), dims=("in",)),
      layers.Dense(names.get("hidden", 16), dim="hidden", activation="relu",
                   name=names.get("first", "first")),
      layers.BatchNormalization(name="norm"), layers.Dropout(0.2),
      layers.Dense(4, dim="classes", name="last")])
  model.compile(
      optimizer or mk.optimizers.Adam(0.01),
      mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      ["accuracy"], mesh=mk.Mesh(mesh, simulate=True), layout=layout)
  return model


def fit(model, epochs, callbacks=(), **options):
  x, y = arrays()
  return model.fit(x, y, batch_size=BATCH_SIZE, epochs=epochs, verbose=0,
                   callbacks=list(callbacks), **options)


def variables(model):
  """Returns {name: full value} of weights and slots."""
  store = model.runtime.store
  return {name: store.gather(name) for name in store.names()}


def assert_equal_variables(one, other, rtol=0.0):
  assert one.keys() == other.keys()
  for name, value in one.items():
    np.testing.assert_allclose(
        other[name], value, rtol=rtol, atol=rtol, err_msg=name)


def assert_equal_history(one, other, rtol=0.0):
  assert one.epoch == other.epoch
  assert one.history.keys() == other.history.keys()
  for name, values in one.history.items():
    np.testing.assert_allclose(
        other.history[name], values, rtol=rtol, err_msg=name)
