"""How often predictions are right."""

from meshkeras import ops
from meshkeras.errors import DimensionError
from meshkeras.layers import activations
from meshkeras.layers.arguments import fraction
from meshkeras.mesh.dimension import format_dims
from meshkeras.metrics.mean import Mean
from meshkeras.upstream import mtf, tf


class Accuracy(Mean):
  """How often y_pred equals y_true.

  Args:
    name: see Metric.

  Dimensions:
    y_true, y_pred: [batch, ...], the same

  When split:
    any dim: no traffic in a step.

  Example:
    >>> Accuracy().result([3.0, 4.0])
    0.75
  """

  def values(self, y_true, y_pred):
    return _equal(mtf.cast(y_true, y_pred.dtype), y_pred)


class BinaryAccuracy(Mean):
  """How often y_pred is on the same side of a threshold as y_true says.

  Args:
    name: see Metric.
    threshold: from 0 to 1; a prediction above it counts as 1.

  Dimensions:
    y_true, y_pred: [batch, ...], the same

  When split:
    any dim: no traffic in a step.

  Raises:
    ArgumentError: threshold is not from 0 to 1.

  Example:
    >>> BinaryAccuracy().get_config()["threshold"]
    0.5
  """

  def __init__(self, name=None, threshold=0.5, **options):
    super().__init__(name, **options)
    self.threshold = fraction("BinaryAccuracy", "threshold", threshold)

  def values(self, y_true, y_pred):
    return ops.elementwise(
        lambda t, p: tf.cast(
            tf.equal(t, tf.cast(p > self.threshold, t.dtype)), tf.float32),
        [mtf.cast(y_true, y_pred.dtype), y_pred], name=self.name,
        dtype=tf.float32)


class CategoricalAccuracy(Mean):
  """How often the largest prediction is where the largest target is.

  Of several that are equally large the first counts.

  Args:
    name: see Metric.

  Dimensions:
    y_true, y_pred: [batch, ..., classes]

  When split:
    classes: the maxima that a cross entropy has computed are used; without
      one, two of 8 bytes per value over its axis.

  Raises:
    DimensionError: y_true has other dims than y_pred.

  Example:
    >>> CategoricalAccuracy().name
    'categorical_accuracy'
  """

  def values(self, y_true, y_pred):
    _check_targets(self, y_true, y_pred.shape.dims, y_pred)
    classes = y_pred.shape.dims[-1]
    _, wanted = ops.max_with_index(y_true, classes)
    return _equal(predicted_class(y_pred), wanted)


class SparseCategoricalAccuracy(Mean):
  """How often the largest prediction is at the position y_true.

  Of several that are equally large the first counts.

  Args:
    name: see Metric.

  Dimensions:
    y_true: [batch, ...], whole numbers
    y_pred: [batch, ..., classes]

  When split:
    classes: the maximum that a cross entropy has computed is used; without
      one, one of 8 bytes per value over its axis.

  Raises:
    DimensionError: y_true has other dims than y_pred without classes.

  Example:
    >>> SparseCategoricalAccuracy().name
    'sparse_categorical_accuracy'
  """

  def values(self, y_true, y_pred):
    _check_targets(self, y_true, y_pred.shape.dims[:-1], y_pred)
    predicted = predicted_class(y_pred)
    return _equal(mtf.cast(y_true, predicted.dtype), predicted)


def predicted_class(y_pred):
  """Returns the position of the largest value along the last dim.

  Of a softmax the logits behind it are compared: they have the same order
  and, if the loss is a cross entropy, their maximum is known already.

  Args:
    y_pred: mtf.Tensor.

  Dimensions:
    y_pred: [batch, ..., classes]
    result: [batch, ...]
  """
  logits = activations.logits_behind(y_pred, "softmax")
  scores = y_pred if logits is None else logits
  _, index = ops.max_with_index(scores, scores.shape.dims[-1])
  return index


def _equal(x, y):
  return ops.elementwise(
      lambda a, b: tf.cast(tf.equal(a, b), tf.float32), [x, y],
      name="equal", dtype=tf.float32)


def _check_targets(metric, y_true, wanted, y_pred):
  if y_true.shape.dims != list(wanted):
    raise DimensionError(
        "%s %r: targets [%s] given for predictions [%s]; accepted are [%s]. "
        "Use another metric, or reshape y."
        % (type(metric).__name__, metric.name,
           format_dims(y_true.shape.dims), format_dims(y_pred.shape.dims),
           format_dims(wanted)))
