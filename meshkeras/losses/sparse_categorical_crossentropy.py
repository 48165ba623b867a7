"""SparseCategoricalCrossentropy."""

from meshkeras import ops
from meshkeras.losses.loss import Crossentropy, class_dim, first_bad_label
from meshkeras.mesh.dimension import format_dims
from meshkeras.upstream import mtf, tf


class SparseCategoricalCrossentropy(Crossentropy):
  """-log(p[label]), with labels as whole numbers.

  Args:
    from_logits: whether predictions are logits; otherwise probabilities,
      kept 1e-7 away from 0 and 1 and then divided by their sum.
    name: see Loss.

  Dimensions:
    y_true: [batch, ...], from 0 to classes - 1
    y_pred: [batch, ..., classes]
    result: [batch, ...]

  When split:
    classes: a maximum and a sum over its axis, result.size each; nothing
      more in the gradient.

  Raises:
    ArgumentError: predictions without a dim of classes.

  Example:
    >>> loss = SparseCategoricalCrossentropy(from_logits=True)
    >>> loss.target_shape(mtf.Shape([("batch", 2), ("classes", 10)]))
    Shape[batch=2]
  """

  target_dtype = tf.int32

  def target_shape(self, prediction_shape):
    return mtf.Shape(prediction_shape.dims[:-1])

  def check_values(self, array, prediction_shape):
    classes = prediction_shape.dims[-1].size
    bad = first_bad_label(array, classes)
    if bad is None:
      return None
    return (
        "SparseCategoricalCrossentropy: label %s at row %s given; accepted "
        "are whole numbers from 0 to %d for predictions [%s]. Correct the "
        "labels, or give the last layer more outputs."
        % (array[bad], ", ".join(str(i) for i in bad), classes - 1,
           format_dims(prediction_shape.dims[1:])))

  def call(self, y_true, y_pred):
    classes = class_dim(y_pred, "SparseCategoricalCrossentropy")
    logits = self.logits(y_pred)
    if logits is None:
      logits = ops.elementwise(
          lambda p: tf.math.log(self.clipped(p)), [y_pred],
          name="log_probabilities")
    return ops.sparse_softmax_cross_entropy(logits, y_true, classes)
