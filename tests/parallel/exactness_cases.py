"""evaluate, predict and the order of rows, on models with known answers."""

import os
import tempfile

import numpy as np

import meshkeras as mk
from meshkeras import layers
from meshkeras.mesh.process_sets import current_job

ROWS = (1, 2, 3, 5, 7)
BATCHES = (1, 2, 3, 4, 7, 100)
WEIGHTED = (2, 4)
FEATURES = 4
MESHES = {
    1: [("", "")],
    2: [("data:2", "batch:data"), ("model:2", "features:model")],
    4: [("data:4", "batch:data"),
        ("data:2,model:2", "batch:data,features:model")],
}


def data(num_rows):
  """Returns (x, y, sample weights)."""
  random = np.random.RandomState(9)
  x, y = random.standard_normal((2, max(ROWS), FEATURES)).astype(np.float32)
  weights = random.uniform(0.5, 2.0, max(ROWS))
  return x[:num_rows], y[:num_rows], weights[:num_rows]


class Counter(mk.callbacks.Callback):
  """Counts the steps of each kind."""

  def __init__(self):
    super().__init__()
    self.counts = {"train": 0, "test": 0, "predict": 0}

  def on_train_batch_end(self, batch, logs=None):
    self.counts["train"] += 1

  def on_test_batch_end(self, batch, logs=None):
    self.counts["test"] += 1

  def on_predict_batch_end(self, batch, logs=None):
    self.counts["predict"] += 1


def identity(mesh, layout):
  model = mk.Sequential([
      mk.Input((FEATURES,), dims=("features",)),
      layers.Activation("linear")])
  model.compile(loss="mse", metrics=["mae"], weighted_metrics=["mse"],
                mesh=mesh, layout=layout)
  return model


def run_identity(mesh, layout):
  """Returns {"rows, batch": values} of one model for all sizes."""
  model, found = identity(mesh, layout), {}
  for num_rows in ROWS:
    x, y, weights = data(num_rows)
    for batch_size in BATCHES:
      counter = Counter()
      found["%d, %d" % (num_rows, batch_size)] = {
          "predict": model.predict(
              x, batch_size, verbose=0, callbacks=[counter]),
          "evaluate": model.evaluate(
              x, y, batch_size, verbose=0, callbacks=[counter],
              return_dict=True),
          "counts": counter.counts}
      if batch_size in WEIGHTED:
        found["%d, %d" % (num_rows, batch_size)]["weighted"] = (
            model.evaluate(x, y, batch_size, verbose=0,
                           sample_weight=weights, return_dict=True))
    found["%d, whole" % num_rows] = {
        "predict": model.predict_on_batch(x),
        "evaluate": model.test_on_batch(x, y, return_dict=True)}
  return found


# A linear model of one-hot rows under a loss that is its output: each step
# takes 1 / (rows of the step) from the weights of the rows it has seen.

ID_ROWS, ID_BATCH = 7, 3


def output_as_loss(y_true, y_pred):
  del y_true
  return y_pred


def one_hot_model(mesh, layout, num_rows=ID_ROWS):
  mk.set_random_seed(2)
  model = mk.Sequential([
      mk.Input((num_rows,), dims=("ids",)),
      layers.Dense(1, use_bias=False, dim="out",
                   kernel_initializer="zeros")])
  model.compile(optimizer=mk.optimizers.SGD(1.0), loss=output_as_loss,
                mesh=mesh, layout=layout)
  return model


def run_epochs(mesh, layout):
  """Returns what each epoch took from each row's weight, and the steps."""
  found = {}
  for name, shuffle in (("shuffled", True), ("in order", False)):
    model, counter = one_hot_model(mesh, layout), Counter()
    taken, before = [], np.zeros(ID_ROWS)
    for epoch in range(3):
      model.fit(np.eye(ID_ROWS), np.zeros((ID_ROWS, 1)), ID_BATCH,
                epochs=epoch + 1, initial_epoch=epoch, verbose=0,
                shuffle=shuffle, callbacks=[counter])
      after = -model.get_weights()[0][:, 0]
      taken.append(after - before)
      before = after
    found[name] = {"taken": taken, "steps": counter.counts["train"]}
  model = one_hot_model(mesh, layout)
  model.fit(np.eye(ID_ROWS), np.zeros((ID_ROWS, 1)), batch_size=100,
            verbose=0)
  found["one step"] = -model.get_weights()[0][:, 0]
  return found


def classifier(mesh, layout):
  mk.set_random_seed(4)
  model = mk.Sequential([
      mk.Input((FEATURES,), dims=("features",)),
      layers.Dense(8, activation="tanh", dim="hidden"),
      layers.Dense(2, dim="classes")])
  model.compile(
      optimizer=mk.optimizers.SGD(0.1),
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      metrics=["accuracy"], mesh=mesh, layout=layout)
  return model


def labelled(num_rows):
  x = np.random.RandomState(6).standard_normal((num_rows, FEATURES))
  return x.astype(np.float32), (x.sum(1) > 0).astype(np.int32)


def run_validation(mesh, layout):
  """Returns the History of a fit and evaluate's values after it."""
  x, y = labelled(26)
  weights = np.linspace(0.5, 1.5, 26)
  found = {}
  for name, options in {
      "data": {"validation_data": (x[20:], y[20:])},
      "weighted": {"validation_data": (x[20:], y[20:], weights[20:])},
      "own batches": {"validation_data": (x[20:], y[20:]),
                      "validation_batch_size": 4},
  }.items():
    model = classifier(mesh, layout)
    history = model.fit(x[:20], y[:20], 8, epochs=2, verbose=0, **options)
    found[name] = {
        "history": history.history,
        "evaluate": model.evaluate(
            x[20:], y[20:], batch_size=options.get(
                "validation_batch_size", 8), verbose=0,
            sample_weight=weights[20:] if name == "weighted" else None)}
  model = classifier(mesh, layout)
  history = model.fit(x, y, 8, epochs=1, verbose=0, validation_split=0.25)
  found["split"] = {
      "history": history.history,
      "evaluate": model.evaluate(x[19:], y[19:], 8, verbose=0)}
  return found


def run_memory_maps(mesh, layout):
  """Returns the numbers of arrays and of the same rows in files."""
  x, y = labelled(22)
  with tempfile.TemporaryDirectory() as directory:
    maps = []
    for name, array in (("x", x), ("y", y)):
      path = os.path.join(directory, name)
      array.tofile(path)
      maps.append(np.memmap(path, array.dtype, "r", shape=array.shape))
    found = {}
    for name, (inputs, targets) in (("arrays", (x, y)), ("maps", maps)):
      model = classifier(mesh, layout)
      history = model.fit(inputs, targets, 8, epochs=2, verbose=0)
      found[name] = {
          "history": history.history,
          "evaluate": model.evaluate(inputs, targets, 5, verbose=0),
          "predict": model.predict(inputs, 5, verbose=0),
          "weights": model.get_weights()}
    del maps
  return found


def run_short_last_batch(mesh, layout):
  """B09: 3 rows, the means of their batches of 2 are 10 and 9."""
  model = mk.Sequential([
      mk.Input((1,), dims=("value",)), layers.Activation("linear")])
  model.compile(loss=output_as_loss, mesh=mesh, layout=layout)
  return model.evaluate(
      np.array([[8.0], [12.0], [9.0]]), np.zeros((3, 1)), 2, verbose=0)


def run_uneven_weights(mesh, layout):
  """B13: one row that counts in the first half, three in the second."""
  x = np.eye(8)
  y = np.array([0, 1, 1, 1, 1, 2, 2, 2])      # predicted: 0, ..., 7
  y[4], y[5], y[6] = 4, 0, 0
  weights = np.array([1, 0, 0, 0, 1, 1, 1, 0.0])
  model = mk.Sequential([
      mk.Input((8,), dims=("classes",)), layers.Activation("linear")])
  model.compile(
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      weighted_metrics=["accuracy"], mesh=mesh, layout=layout)
  trained = one_hot_model(mesh, layout, 8)
  trained.train_on_batch(x, np.zeros((8, 1)), sample_weight=weights)
  return {
      "evaluate": model.evaluate(
          x, y, 8, verbose=0, sample_weight=weights, return_dict=True),
      "gradient": -trained.get_weights()[0][:, 0]}


class StopOnOneRank(mk.callbacks.Callback):
  """Asks to stop at the end of epoch 1, on the last rank alone."""

  def on_epoch_end(self, epoch, logs=None):
    job = current_job()
    if epoch == 1 and job.rank == job.size - 1:
      self.model.stop_training = True


def run_stop(mesh, layout):
  """B17: all ranks leave after the same epoch."""
  x, y = labelled(20)
  history = classifier(mesh, layout).fit(
      x, y, 8, epochs=5, verbose=0, callbacks=[StopOnOneRank()])
  return history.history


RUNS = {
    "identity": run_identity, "validation": run_validation,
    "memory maps": run_memory_maps, "stop": run_stop}
BATCH_RUNS = {
    "epochs": run_epochs, "short last batch": run_short_last_batch,
    "uneven weights": run_uneven_weights}
# What these models can split: the rows, or a dim of theirs.
BATCH_MESHES = {
    1: [("", "")],
    2: [("data:2", "batch:data")],
    4: [("data:4", "batch:data"), ("data:2,model:2", "batch:data")],
}


def case_name(kind, mesh, layout):
  return "%s, mesh %r, layout %r" % (kind, mesh, layout)


def cases(num_processes):
  found = {}
  for runs, meshes in ((RUNS, MESHES), (BATCH_RUNS, BATCH_MESHES)):
    for kind, run in runs.items():
      for mesh, layout in meshes[num_processes]:
        found[case_name(kind, mesh, layout)] = (
            lambda run=run, mesh=mesh, layout=layout: run(mesh, layout))
  return found
