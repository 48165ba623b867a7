"""MeanAbsoluteError as a metric."""

from meshkeras import ops
from meshkeras.metrics.mean import Mean
from meshkeras.upstream import mtf, tf


class MeanAbsoluteError(Mean):
  """mean of |y_true - y_pred|.

  Args:
    name: see Metric.

  Dimensions:
    y_true, y_pred: [batch, ...], the same

  When split:
    any dim: no traffic in a step.

  Example:
    >>> MeanAbsoluteError().name
    'mean_absolute_error'
  """

  def values(self, y_true, y_pred):
    return ops.elementwise(
        lambda t, p: tf.abs(t - p),
        [mtf.cast(y_true, y_pred.dtype), y_pred], name=self.name)
