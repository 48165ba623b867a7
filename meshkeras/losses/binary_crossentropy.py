"""BinaryCrossentropy."""

from meshkeras import ops
from meshkeras.layers.arguments import fraction
from meshkeras.losses.loss import Crossentropy, same_type
from meshkeras.upstream import tf


class BinaryCrossentropy(Crossentropy):
  """mean of -(t log(p) + (1 - t) log(1 - p)), each value its own yes or no.

  Args:
    from_logits: whether predictions are logits; otherwise probabilities.
    label_smoothing: share, 0 to 1, of a target that moves to 1/2.
    name: see Loss.

  Dimensions:
    y_true, y_pred: [batch, ...], the same

  When split:
    any dim: no traffic.

  Raises:
    ArgumentError: label_smoothing is not from 0 to 1.

  Example:
    >>> BinaryCrossentropy(from_logits=True).get_config()["from_logits"]
    True
  """

  activation = "sigmoid"

  def __init__(self, from_logits=False, label_smoothing=0.0, name=None,
               **options):
    super().__init__(from_logits, name, **options)
    self.label_smoothing = fraction(
        "BinaryCrossentropy", "label_smoothing", label_smoothing)

  def call(self, y_true, y_pred):
    y_true = same_type(y_true, y_pred)
    logits = self.logits(y_pred)
    if logits is None:
      return ops.elementwise(
          self._from_probabilities, [y_true, y_pred], name=self.name)
    return ops.elementwise(
        self._from_logits, [y_true, logits], name=self.name)

  def _from_logits(self, t, x):
    return tf.nn.sigmoid_cross_entropy_with_logits(
        labels=self._smoothed(t), logits=x)

  def _from_probabilities(self, t, p):
    t, p = self._smoothed(t), self.clipped(p)
    return -(t * tf.math.log(p) + (1.0 - t) * tf.math.log(1.0 - p))

  def _smoothed(self, t):
    if not self.label_smoothing:
      return t
    return t * (1.0 - self.label_smoothing) + 0.5 * self.label_smoothing
