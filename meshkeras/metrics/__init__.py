"""Floor 5: numbers reported beside the loss.

One kind of metric per file, each a list of sums that is divided once; they
use `layers` (activations and argument checks), `ops` and the floors below.
Read `metric.py` first.
"""

from meshkeras.errors import ArgumentError
from meshkeras.layers.configured import look_up
from meshkeras.metrics.accuracy import (
  Accuracy,
  BinaryAccuracy,
  CategoricalAccuracy,
  SparseCategoricalAccuracy,
)
from meshkeras.metrics.mean import FunctionMean, Mean
from meshkeras.metrics.mean_absolute_error import MeanAbsoluteError
from meshkeras.metrics.mean_squared_error import MeanSquaredError
from meshkeras.metrics.metric import Metric

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "FunctionMean",
    "Mean",
    "MeanAbsoluteError",
    "MeanSquaredError",
    "Metric",
    "SparseCategoricalAccuracy",
    "get",
]

_KNOWN = {cls.__name__: cls for cls in (
    Accuracy, BinaryAccuracy, CategoricalAccuracy, MeanAbsoluteError,
    MeanSquaredError, Mean, SparseCategoricalAccuracy)}
_KNOWN.update({
    "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy,
    "mean_absolute_error": MeanAbsoluteError, "mae": MeanAbsoluteError,
    "mean_squared_error": MeanSquaredError, "mse": MeanSquaredError,
    "sparse_categorical_accuracy": SparseCategoricalAccuracy,
})


def get(identifier, prediction_shape=None, target_shape=None):
  """Returns a Metric by name, config, function or as it is.

  Args:
    identifier: "mse", {"class_name", "config"}, a Metric, a function
      (y_true, y_pred) -> mtf.Tensor of values; or "accuracy" or "acc", the
      kind of which depends on the shapes, as in Keras.
    prediction_shape: mtf.Shape of the model's output, the batch first.
    target_shape: mtf.Shape of the loss's targets.

  Returns: Metric; one asked for by name bears that name.
  Raises:
    ArgumentError: the name is not known, or it is nothing of these.

  Example:
    >>> get("mse").name
    'mse'
  """
  if identifier in ("accuracy", "acc"):
    metric = _accuracy(prediction_shape, target_shape)
  else:
    metric = look_up("metric", identifier, _KNOWN)
  if isinstance(identifier, str):
    metric.name = identifier
  elif not isinstance(metric, Metric) and callable(metric):
    metric = FunctionMean(metric)
  if not isinstance(metric, Metric):
    raise ArgumentError(
        "metric %r given; accepted are a name, a Metric or a function of "
        "(y_true, y_pred). Give one of them, for example 'accuracy'."
        % (identifier,))
  return metric


def _accuracy(prediction_shape, target_shape):
  """Returns the accuracy that Keras picks for these shapes."""
  if prediction_shape is None or target_shape is None:
    raise ArgumentError(
        "metrics.get: 'accuracy' given without shapes, on which its kind "
        "depends. Give prediction_shape and target_shape, or a class such "
        "as SparseCategoricalAccuracy.")
  outputs = [dim.size for dim in prediction_shape.dims]
  targets = [dim.size for dim in target_shape.dims]
  if outputs[-1] == 1:
    return BinaryAccuracy()
  if len(targets) < len(outputs) or targets[-1] == 1:
    return SparseCategoricalAccuracy()
  return CategoricalAccuracy()
