"""Floor 5: what training makes small.

One loss per file, on named dimensions; they use `layers` (activations and
argument checks), `ops` and the floors below. Read `loss.py` first.
"""

from meshkeras.errors import ArgumentError
from meshkeras.layers.configured import look_up
from meshkeras.losses.binary_crossentropy import BinaryCrossentropy
from meshkeras.losses.categorical_crossentropy import CategoricalCrossentropy
from meshkeras.losses.loss import FunctionLoss, Loss
from meshkeras.losses.mean_squared_error import MeanSquaredError
from meshkeras.losses.sparse_categorical_crossentropy import (
  SparseCategoricalCrossentropy,
)

__all__ = [
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "FunctionLoss",
    "Loss",
    "MeanSquaredError",
    "SparseCategoricalCrossentropy",
    "get",
]

_KNOWN = {cls.__name__: cls for cls in (
    BinaryCrossentropy, CategoricalCrossentropy, MeanSquaredError,
    SparseCategoricalCrossentropy)}
_KNOWN.update({
    "binary_crossentropy": BinaryCrossentropy, "bce": BinaryCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "mean_squared_error": MeanSquaredError, "mse": MeanSquaredError,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy,
})


def get(identifier):
  """Returns a Loss by name, config, function or as it is.

  Args:
    identifier: "mse", {"class_name", "config"}, a Loss, or a function
      (y_true, y_pred) -> mtf.Tensor of values.

  Raises:
    ArgumentError: the name is not known, or it is nothing of these.

  Example:
    >>> get("mse").name
    'mean_squared_error'
  """
  loss = look_up("loss", identifier, _KNOWN)
  if not isinstance(loss, Loss) and callable(loss):
    loss = FunctionLoss(loss)
  if not isinstance(loss, Loss):
    raise ArgumentError(
        "loss=%r given; accepted are a name, a Loss or a function of "
        "(y_true, y_pred). Give one of them, for example 'mse'."
        % (identifier,))
  return loss
