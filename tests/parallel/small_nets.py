"""A small model and its data, for cases that never train it far."""

import numpy as np

import meshkeras as mk
from meshkeras import layers
from meshkeras.mesh.process_sets import current_job

PIXELS, HIDDEN, CLASSES, ROWS = 8, 16, 4, 12


def model_of(pixels=PIXELS, hidden=HIDDEN, classes=CLASSES):
  return mk.Sequential([
      mk.Input((pixels,), dims=("pixels",)),
      layers.Dense(hidden, dim="hidden", name="first"),
      layers.Dense(classes, dim="classes", name="last")], name="net")


def compiled(model=None, mesh=None, layout=None, **options):
  model = model or model_of()
  arguments = {
      "optimizer": "sgd", "mesh": mesh, "layout": layout,
      "loss": mk.losses.SparseCategoricalCrossentropy(from_logits=True)}
  model.compile(**{**arguments, **options})
  return model


def rows(num_rows=ROWS):
  random = np.random.RandomState(1)
  return (random.standard_normal((num_rows, PIXELS)).astype(np.float32),
          random.randint(0, CLASSES, num_rows))


def rank():
  return current_job().rank


def size():
  return current_job().size


def fit(x=None, y=None, model=None, **options):
  if x is None:
    x, y = rows()
  arguments = {"batch_size": 4, "epochs": 1, "verbose": 0}
  return (model or compiled()).fit(x, y, **{**arguments, **options})
