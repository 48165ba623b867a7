"""What a row of the conformance table is, and how it is run at a layout."""

import itertools
from typing import Any, NamedTuple, Tuple

import numpy as np

import meshkeras as mk
from meshkeras.layers.initializers import RandomUniform

# 11 rows in batches of 6: the last batch is short, and any batch is padded
# where it is split over 4.
NUM_ROWS, BATCH_SIZE, SEED = 11, 6, 7
# The axes a layout names, and the mesh that has them.
MESHES = {"": "", "a": "a:2", "ab": "a:2,b:2", "q": "q:4"}

_RANDOM = np.random.RandomState(0)


def _normal(*sizes):
  return _RANDOM.standard_normal((NUM_ROWS,) + sizes).astype(np.float32)


INPUTS = {
    "vectors": (("x",), _normal(8)),
    "sequences": (("words", "x"), _normal(4, 8)),
    "images": (("rows", "cols", "x"), _normal(8, 8, 4)),
    "ids": (("words",),
            _RANDOM.randint(0, 8, (NUM_ROWS, 4)).astype(np.int32)),
}
WEIGHTS = _RANDOM.uniform(0.2, 2.0, NUM_ROWS)


class Scale(mk.layers.Layer):
  """y = x * scale: shows the gradient of whatever comes after it."""

  def build(self, input_shape):
    self.scale = self.add_weight(
        "scale", input_shape.dims[1:], RandomUniform(0.5, 1.5))

  def call(self, x, training=False):
    return x * self.scale.read()


class Row(NamedTuple):
  """A small model, and the layouts it is tried at.

  name: what the tests call it.
  input: a key of INPUTS.
  layers: function () -> list of Layer.
  layouts: of `layouts` or by hand; axes are those of MESHES.
  loss, metrics, optimizer: as for `compile`; functions that make them where
    they are objects. SGD by default.
  targets: "values", "labels", "one_hot", "bits" (0 or 1).
  weighted: whether there are sample weights.
  random: whether training draws values, so that Keras draws others.
  """

  name: str
  input: str
  layers: Any
  layouts: Tuple
  loss: Any = mk.losses.MeanSquaredError
  metrics: Any = list
  optimizer: Any = lambda: mk.optimizers.SGD(0.5)
  targets: str = "values"
  weighted: bool = False
  random: bool = False

  def model(self):
    """Returns a new Sequential, built."""
    dims, x = INPUTS[self.input]
    return mk.Sequential(
        [mk.Input(x.shape[1:], dims=dims, dtype=x.dtype.name)]
        + self.layers()).build()

  def arrays(self, output_sizes):
    """Returns (x, y, sample_weight) for a model with such an output."""
    random = np.random.RandomState(1)
    shape = (NUM_ROWS,) + tuple(output_sizes)
    if self.targets == "values":
      y = random.standard_normal(shape)
    elif self.targets == "bits":
      y = random.randint(0, 2, shape)
    else:
      y = random.randint(0, shape[-1], shape[:-1])
      if self.targets == "one_hot":
        y = np.eye(shape[-1])[y]
    return INPUTS[self.input][1], y, WEIGHTS if self.weighted else None


def layouts(dims, pairs=True, quarters=""):
  """Returns layouts: each dim over 2, each pair over 2 x 2, some over 4.

  Args:
    dims: names, apart by spaces.
    pairs: True for all pairs, False for none, or text: "x,y batch,x".
    quarters: names of the dims that are tried over 4.

  Example:
    >>> layouts("batch x", quarters="x")
    ('batch:a', 'x:a', 'batch:a,x:b', 'x:q')
  """
  names = dims.split()
  couples = itertools.combinations(names, 2) if pairs is True else (
      pair.split(",") for pair in (pairs or "").split())
  return tuple(
      ["%s:a" % name for name in names]
      + ["%s:a,%s:b" % tuple(pair) for pair in couples]
      + ["%s:q" % name for name in quarters.split()])


class Result(NamedTuple):
  """What a row gave at a layout.

  names, trainable: names of all weights; the set of those trained.
  initial, stepped, trained: lists of full weights: at the beginning, after
    one step, after two epochs more.
  predicted, evaluated, step_logs, history: what the methods returned.
  summary: what `model.summary` shows.
  """

  names: list
  trainable: set
  initial: list
  predicted: np.ndarray
  evaluated: dict
  step_logs: dict
  stepped: list
  history: dict
  trained: list
  summary: str


def run(row, layout=""):
  """Returns the Result of a row at a layout, on a simulated mesh."""
  axes = "".join(sorted({rule[-1] for rule in layout.split(",") if rule}))
  mk.set_random_seed(SEED)
  model = row.model()
  x, y, weights = row.arrays([d.size for d in model.output_shape.dims[1:]])
  model.compile(
      optimizer=row.optimizer(), loss=row.loss(), metrics=row.metrics(),
      weighted_metrics=row.metrics() if row.weighted else None,
      mesh=mk.Mesh(MESHES[axes], simulate=True), layout=layout)
  initial = model.get_weights()
  silent = dict(batch_size=BATCH_SIZE, verbose=0)
  predicted = model.predict(x, **silent)
  evaluated = model.evaluate(
      x, y, sample_weight=weights, return_dict=True, **silent)
  step_logs = model.train_on_batch(
      x[:BATCH_SIZE], y[:BATCH_SIZE], return_dict=True,
      sample_weight=None if weights is None else weights[:BATCH_SIZE])
  stepped = model.get_weights()
  history = model.fit(x, y, sample_weight=weights, epochs=2, **silent).history
  texts = []
  model.summary(print_fn=texts.append)
  result = Result(
      [w.name for w in model.weights],
      {w.name for w in model.trainable_weights}, initial, predicted,
      evaluated, step_logs, stepped, history, model.get_weights(), texts[0])
  model.runtime.close()
  return result


_RESULTS = {}


def result_of(row, layout=""):
  """Returns `run(row, layout)`, run once; raises again what it raised."""
  key = (row.name, layout)
  if key not in _RESULTS:
    try:
      _RESULTS[key] = run(row, layout)
    except Exception as error:
      _RESULTS[key] = error
  if isinstance(_RESULTS[key], Exception):
    raise _RESULTS[key]
  return _RESULTS[key]
