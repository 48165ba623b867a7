"""The base class of losses."""

import numpy as np

from meshkeras.errors import ArgumentError
from meshkeras.layers import activations
from meshkeras.layers.configured import Configured
from meshkeras.layers.layer import snake_case
from meshkeras.mesh.dimension import format_dims
from meshkeras.upstream import mtf, tf


class Loss(Configured):
  """What training makes small: one value per sample, averaged over all.

  The model multiplies the values by the sample weights, adds them up over
  the global batch and divides by the number of values of real rows, as
  Keras's reduction "sum_over_batch_size".

  Args:
    name: what it is called in messages; default the class's name.

  Raises:
    ArgumentError: a keyword that the class does not accept.

  Example:
    >>> class MeanCubedError(Loss):
    ...   def call(self, y_true, y_pred):
    ...     error = y_true - y_pred
    ...     return error * error * error
    >>> MeanCubedError().get_config()
    {'name': 'mean_cubed_error'}
  """

  target_dtype = tf.float32

  def __init__(self, name=None, **options):
    self.take_options(options)
    self.name = name or snake_case(type(self).__name__)

  def target_shape(self, prediction_shape):
    """Returns the mtf.Shape of y for a prediction's, batch first."""
    return prediction_shape

  def call(self, y_true, y_pred):
    """Returns the values, an mtf.Tensor.

    They may keep any of the prediction's dims: the model takes the mean over
    all but the batch. A mean over a dim is best left to it, as it then needs
    no collective of its own.

    Args:
      y_true: mtf.Tensor of `target_shape` and `target_dtype`.
      y_pred: mtf.Tensor, the batch first.

    Dimensions:
      result: [batch, ...]
    """
    raise NotImplementedError(type(self).__name__)

  def check_target(self, array, prediction_shape):
    """Returns None, or a text that says what is wrong with targets.

    Args:
      array: NumPy rows of y.
      prediction_shape: mtf.Shape, the batch first.
    """
    dims = self.target_shape(prediction_shape).dims[1:]
    if tuple(array.shape[1:]) != tuple(dim.size for dim in dims):
      return (
          "%s: targets of shape %s per row given; accepted is %s for "
          "predictions [%s]. Reshape y, or use another loss."
          % (type(self).__name__, tuple(array.shape[1:]),
             tuple(dim.size for dim in dims),
             format_dims(prediction_shape.dims[1:])))
    return self.check_values(array, prediction_shape)

  def check_values(self, array, prediction_shape):
    """Returns None, or a text about target values that are out of range."""
    return None


class FunctionLoss(Loss):
  """A function (y_true, y_pred) -> values, both mtf.Tensor, as a loss.

  Args:
    function: see `Loss.call`.
    name: default the function's name.
  """

  def __init__(self, function, name=None, **options):
    super().__init__(name or getattr(function, "__name__", None), **options)
    self.function = function

  def call(self, y_true, y_pred):
    return self.function(y_true, y_pred)


class Crossentropy(Loss):
  """Base of the cross entropies.

  Args:
    from_logits: whether predictions are logits; otherwise probabilities. Of
      the output of a softmax or sigmoid activation the logits are used all
      the same, which is exact where probabilities round to 0 or 1.
    name: see Loss.
  """

  # As Keras's default epsilon: probabilities are kept this far from 0, 1.
  epsilon = 1e-7

  # Which activation's output the loss takes for probabilities.
  activation = "softmax"

  def __init__(self, from_logits=False, name=None, **options):
    super().__init__(name, **options)
    self.from_logits = bool(from_logits)

  def logits(self, y_pred):
    """Returns the logits of a prediction, or None if it has none."""
    behind = activations.logits_behind(y_pred, self.activation)
    if behind is not None:
      return behind
    return y_pred if self.from_logits else None

  def clipped(self, p):
    """Returns a tf.Tensor of probabilities kept away from 0 and 1."""
    return tf.clip_by_value(p, self.epsilon, 1.0 - self.epsilon)


def same_type(y_true, y_pred):
  """Returns y_true cast to the type of y_pred."""
  return y_true if y_true.dtype == y_pred.dtype else (
      mtf.cast(y_true, y_pred.dtype))


def class_dim(y_pred, where):
  """Returns the last dim of a prediction, which counts its classes.

  Raises:
    ArgumentError: the batch is its only dim.
  """
  if len(y_pred.shape.dims) < 2:
    raise ArgumentError(
        "%s: predictions [%s] given; accepted are [batch, ..., classes]. End "
        "the model with a layer that has one output per class."
        % (where, format_dims(y_pred.shape.dims)))
  return y_pred.shape.dims[-1]


def first_bad_label(labels, num_classes):
  """Returns the position of the first label outside 0 ... classes - 1.

  Args:
    labels: NumPy array.
    num_classes: number of classes.

  Returns: tuple, or None if all are inside.
  """
  labels = np.asarray(labels)
  bad = (labels < 0) | (labels >= num_classes)
  if labels.dtype.kind == "f":
    bad |= labels != np.floor(labels)
  if not bad.any():
    return None
  return tuple(int(i) for i in np.argwhere(bad)[0])
