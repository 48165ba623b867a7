"""CategoricalCrossentropy."""

from meshkeras import ops
from meshkeras.layers.arguments import fraction
from meshkeras.losses.loss import Crossentropy, class_dim, same_type
from meshkeras.upstream import mtf, tf


class CategoricalCrossentropy(Crossentropy):
  """-(sum over classes of t log(p)); t is one-hot or any distribution.

  Args:
    from_logits: whether predictions are logits; otherwise probabilities,
      divided by their sum first.
    label_smoothing: share, 0 to 1, of a target spread over all classes.
    name: see Loss.

  Dimensions:
    y_true, y_pred: [batch, ..., classes]
    result: [batch, ...]

  When split:
    classes: a maximum and a sum over its axis, result.size each; nothing
      more in the gradient.

  Raises:
    ArgumentError: label_smoothing is not from 0 to 1; predictions without
      a dim of classes.

  Example:
    >>> CategoricalCrossentropy(label_smoothing=0.1).label_smoothing
    0.1
  """

  def __init__(self, from_logits=False, label_smoothing=0.0, name=None,
               **options):
    super().__init__(from_logits, name, **options)
    self.label_smoothing = fraction(
        "CategoricalCrossentropy", "label_smoothing", label_smoothing)

  def call(self, y_true, y_pred):
    classes = class_dim(y_pred, "CategoricalCrossentropy")
    logits = self.logits(y_pred)
    if logits is not None:
      # Both at once: an accuracy asks for the targets' maximum too.
      ops.max_with_index(logits, classes, beside=y_true)
    y_true = self._smoothed(same_type(y_true, y_pred), classes.size)
    if logits is not None:
      return ops.softmax_cross_entropy(logits, y_true, classes)
    total = mtf.reduce_sum(y_pred, reduced_dim=classes)
    values = ops.elementwise(
        lambda t, p, s: -t * tf.math.log(self.clipped(p / s)),
        [y_true, y_pred, total], name=self.name)
    return mtf.reduce_sum(values, reduced_dim=classes)

  def _smoothed(self, y_true, num_classes):
    if not self.label_smoothing:
      return y_true
    return ops.elementwise(
        lambda t: t * (1.0 - self.label_smoothing)
        + self.label_smoothing / num_classes, [y_true],
        name="label_smoothing")
