"""Trains small models at many layouts; every number goes to the tests."""

import numpy as np

import meshkeras as mk
from meshkeras import layers

NUM_ROWS, BATCH_SIZE = 72, 16     # the fifth batch of an epoch has 8 rows
EPOCHS = 4                        # of 5 steps
CLASSES = 8

# (model, mesh, layout) by number of processes; the first of each model on
# one process is what all others must equal.
CASES = {
    1: [("dense", "", ""), ("image", "", ""), ("token", "", "")],
    2: [("dense", "data:2", ""),
        ("dense", "data:2", "batch:data"),
        ("dense", "model:2", "hidden:model"),
        ("dense", "model:2", "classes:model"),
        ("image", "data:2", "batch:data"),
        ("image", "tall:2", "rows:tall"),
        ("image", "model:2", "filters:model,hidden:model"),
        ("token", "model:2", "vocabulary:model")],
    4: [("dense", "data:4", "batch:data"),
        ("dense", "model:4", "hidden:model"),
        ("dense", "model:4", "classes:model"),
        ("dense", "data:2,model:2", "batch:data,hidden:model"),
        ("dense", "one:2,two:2", "pixels:one,hidden:two,classes:one"),
        ("image", "tall:4", "rows:tall"),
        ("image", "tall:2,wide:2", "rows:tall,cols:wide"),
        ("image", "data:2,tall:2", "batch:data,rows:tall"),
        ("token", "model:4", "vocabulary:model"),
        ("token", "data:2,model:2", "batch:data,vocabulary:model")],
}


def case_name(model, mesh, layout):
  return "%s, mesh %r, layout %r" % (model, mesh, layout)


def make_data():
  """Returns (x, y): rows of grey values 0 to 15 that can be told apart."""
  random = np.random.RandomState(5)
  y = random.randint(0, CLASSES, NUM_ROWS)
  prototypes = random.randint(0, 16, (CLASSES, 8, 8))
  x = prototypes[y] + random.randint(-4, 5, (NUM_ROWS, 8, 8))
  return np.clip(x, 0, 15), y


def make_model(kind):
  mk.set_random_seed(3)
  if kind == "dense":
    stack = [
        mk.Input((64,), dims=("pixels",)),
        layers.Dense(32, activation="tanh", dim="hidden"),
        layers.Dropout(0.25)]
  elif kind == "image":
    stack = [
        mk.Input((8, 8, 1), dims=("rows", "cols", "gray")),
        layers.Conv2D(4, 3, padding="same", activation="tanh",
                      dim="filters"),
        layers.BatchNormalization(),
        layers.AveragePooling2D(2),
        layers.Flatten(dim="flat"),
        layers.Dense(16, activation="tanh", dim="hidden")]
  else:
    stack = [
        mk.Input((64,), dims=("pixels",), dtype="int32"),
        layers.Embedding(16, 4, dim="features",
                         vocabulary_dim="vocabulary"),
        layers.Flatten(dim="flat"),
        layers.LayerNormalization()]
  return mk.Sequential(stack + [layers.Dense(CLASSES, dim="classes")])


def model_inputs(kind):
  x, y = make_data()
  if kind == "token":
    return x.reshape(NUM_ROWS, 64), y
  x = (x / 16).astype(np.float32)
  return x.reshape((NUM_ROWS, 64) if kind == "dense" else (
      NUM_ROWS, 8, 8, 1)), y


def compiled(kind, mesh, layout, optimizer, metrics=("accuracy",)):
  model = make_model(kind)
  model.compile(
      optimizer=optimizer,
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      metrics=list(metrics), mesh=mesh, layout=layout)
  return model


class Recorder(mk.callbacks.Callback):
  """Keeps the logs of each epoch."""

  def __init__(self):
    super().__init__()
    self.epochs, self.batches = [], []

  def on_epoch_end(self, epoch, logs=None):
    self.epochs.append([epoch, dict(logs or {})])


class BatchRecorder(Recorder):
  """Keeps the logs of each batch too, which costs a reduction each."""

  def on_train_batch_end(self, batch, logs=None):
    self.batches.append([batch, dict(logs or {})])


def watches_batches(kind, layout):
  return kind == "dense" and layout in ("", "batch:data",
                                        "batch:data,hidden:model")


def train(kind, mesh, layout):
  """Returns everything that must be the same everywhere."""
  x, y = model_inputs(kind)
  found = {}
  model = compiled(kind, mesh, layout, mk.optimizers.SGD(0.1))
  found["initial weights"] = model.get_weights()
  found["train_on_batch"] = model.train_on_batch(x[:10], y[:10])
  found["after one step"] = model.get_weights()

  model = compiled(kind, mesh, layout, mk.optimizers.Adam(2e-3))
  recorder = BatchRecorder() if watches_batches(kind, layout) else Recorder()
  history = model.fit(
      x, y, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=0,
      validation_data=(x[:20], y[:20]), callbacks=[recorder])
  found["history"] = history.history
  found["epoch logs"] = recorder.epochs
  found["batch logs"] = recorder.batches
  found["weights"] = model.get_weights()
  # Batches of sizes seen before, as each other one is lowered anew.
  found["evaluate"] = model.evaluate(x, y, BATCH_SIZE, verbose=0)
  found["test_on_batch"] = model.test_on_batch(x[:16], y[:16])
  found["predict"] = model.predict(x[:9], batch_size=4, verbose=0)
  found["predict_on_batch"] = model.predict_on_batch(x[:4])
  found["iterations"] = model.optimizer.iterations
  return found


# Dropout's mask, read off a kernel. Row i of the batch has the value 2**i,
# the kernel starts at 0, the loss is the output: the gradient of each
# position of the kernel is the sum of 2**i over the rows that are kept.

MASK_ROWS, MASK_FEATURES, MASK_STEPS = 16, 24, 3
MASK_CASES = {
    1: [("", "")],
    2: [("data:2", "batch:data"), ("model:2", "features:model")],
    4: [("data:4", "batch:data"), ("model:4", "features:model"),
        ("data:2,model:2", "batch:data,features:model")],
}


def mask_name(mesh, layout):
  return "mask, mesh %r, layout %r" % (mesh, layout)


def read_masks(mesh, layout):
  """Returns [whole numbers [features] whose bits are the rows kept]."""
  mk.set_random_seed(7)
  model = mk.Sequential([
      mk.Input((MASK_FEATURES,), dims=("features",)),
      layers.Dropout(0.5),
      layers.Dense(1, use_bias=False, dim="out",
                   kernel_initializer="zeros")])
  model.compile(optimizer=mk.optimizers.SGD(1.0), loss=output_as_loss,
                mesh=mesh, layout=layout)
  x = np.repeat(2.0 ** np.arange(MASK_ROWS)[:, None], MASK_FEATURES, 1)
  y = np.zeros((MASK_ROWS, 1))
  masks = []
  for _ in range(MASK_STEPS):
    model.set_weights([np.zeros((MASK_FEATURES, 1), np.float32)])
    model.train_on_batch(x, y)
    # The mean over 16 rows, and the factor 2 of a rate of 0.5.
    masks.append(-model.get_weights()[0][:, 0] * MASK_ROWS / 2)
  return masks


def output_as_loss(y_true, y_pred):
  del y_true
  return y_pred


# Collectives of one training step.

def mean_output(y_true, y_pred):
  """A metric whose values are split as the output is."""
  del y_true
  return y_pred


STEP_CASES = {
    2: [("dense", "data:2", ""), ("dense", "data:2", "batch:data"),
        ("dense", "model:2", "hidden:model"),
        ("dense", "model:2", "classes:model"),
        ("image", "tall:2", "rows:tall")],
    4: [("dense", "data:2,model:2", "batch:data,hidden:model"),
        ("dense", "data:4", "batch:data"),
        ("token", "data:2,model:2", "batch:data,vocabulary:model"),
        ("image", "tall:2,wide:2", "rows:tall,cols:wide")],
}
METRICS = ("accuracy", "sparse_categorical_accuracy", mean_output)


def step_name(kind, mesh, layout):
  return "step, " + case_name(kind, mesh, layout)


def collectives(kind, mesh, layout):
  """Returns {what is measured: [kind, axes, shape] of each collective}."""
  found = {}
  for name, metrics in (("loss alone", ()), ("metrics", METRICS)):
    model = compiled(kind, mesh, layout, mk.optimizers.SGD(0.1), metrics)
    found[name] = [[c.kind, list(c.axes), list(c.shape)]
                   for c in model.collectives_per_step(BATCH_SIZE)]
  return found


def cases(num_processes):
  found = {}
  for case in CASES[num_processes]:
    found[case_name(*case)] = lambda case=case: train(*case)
  for case in MASK_CASES[num_processes]:
    found[mask_name(*case)] = lambda case=case: read_masks(*case)
  for case in STEP_CASES.get(num_processes, []):
    found[step_name(*case)] = lambda case=case: collectives(*case)
  return found
