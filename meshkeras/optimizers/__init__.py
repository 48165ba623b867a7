"""Floor 5: how weights change by their gradients.

One optimizer per file, on TensorFlow's fused kernels, slice by slice; they
use `layers` (initializers and argument checks), `ops` and the floors below.
Read `optimizer.py` first.
"""

from meshkeras.errors import ArgumentError
from meshkeras.layers.configured import look_up
from meshkeras.optimizers.adam import Adam
from meshkeras.optimizers.adamw import AdamW
from meshkeras.optimizers.optimizer import Optimizer
from meshkeras.optimizers.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "get"]

_KNOWN = {cls.__name__: cls for cls in (SGD, Adam, AdamW)}
_KNOWN.update({"sgd": SGD, "adam": Adam, "adamw": AdamW})


def get(identifier):
  """Returns an Optimizer by name, config or as it is.

  Args:
    identifier: "adam", {"class_name", "config"}, or an Optimizer.

  Raises:
    ArgumentError: the name is not known, or it is nothing of these.

  Example:
    >>> get("adam").learning_rate
    0.001
  """
  optimizer = look_up("optimizer", identifier, _KNOWN)
  if not isinstance(optimizer, Optimizer):
    raise ArgumentError(
        "optimizer=%r given; accepted are a name or an Optimizer. Give one "
        "of them, for example 'adam'." % (identifier,))
  return optimizer
