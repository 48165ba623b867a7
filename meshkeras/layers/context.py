"""What a layer can ask for while its `call` runs."""

import threading
from typing import Any, NamedTuple

from meshkeras.errors import OrderError

_RUNNING = threading.local()


class LayerCall(NamedTuple):
  """One call of a layer: what it got and gave, its operations' range."""

  layer: Any
  input: Any
  output: Any
  begin: int
  end: int


class CallContext:
  """The function being built: train, evaluate or predict.

  Entered by the model around the calls of its layers:
  `with CallContext(mesh, training=True): y = layer(x)`.

  Args:
    mesh: mtf.Mesh of the graph being built.
    training: whether dropout and batch statistics are on.
    row_mask: float32 mtf.Tensor, 1 for real rows and 0 for pad rows, or None
      if every row is real.
    num_rows: float32 scalar mtf.Tensor, the number of real rows of the
      global batch, or None if every row is real.

  Dimensions:
    row_mask: [batch]
    num_rows: []

  Attributes:
    updates: what the training function runs besides the optimizer's.
    calls: LayerCall of each layer called, inner layers first.
  """

  def __init__(self, mesh, training=False, row_mask=None, num_rows=None):
    self.mesh = mesh
    self.training = training
    self.row_mask = row_mask
    self.num_rows = num_rows
    self.updates = []
    self.calls = []
    self._uses = {}

  def unique_name(self, name):
    """Returns `name`, then `name_1`, ... for its further uses.

    Gives the random values of a layer that is called twice two names, equal
    on every process.
    """
    uses = self._uses.get(name, 0)
    self._uses[name] = uses + 1
    return "%s_%d" % (name, uses) if uses else name

  def __enter__(self):
    _stack().append(self)
    return self

  def __exit__(self, *unused):
    _stack().pop()


def current():
  """Returns the innermost running CallContext.

  Raises:
    OrderError: none is running: a layer was called outside a model.
  """
  if not _stack():
    raise OrderError(
        "layers: a layer was called, or a weight read, while no model is "
        "being built; both are possible inside a model's layers only. Put "
        "the layer into a Sequential or a Model.")
  return _stack()[-1]


def _stack():
  if not hasattr(_RUNNING, "stack"):
    _RUNNING.stack = []
  return _RUNNING.stack
