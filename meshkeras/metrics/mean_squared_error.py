"""MeanSquaredError as a metric."""

from meshkeras import ops
from meshkeras.metrics.mean import Mean
from meshkeras.upstream import mtf, tf


class MeanSquaredError(Mean):
  """mean of (y_true - y_pred) ** 2.

  Args:
    name: see Metric.

  Dimensions:
    y_true, y_pred: [batch, ...], the same

  When split:
    any dim: no traffic in a step.

  Example:
    >>> MeanSquaredError().name
    'mean_squared_error'
  """

  def values(self, y_true, y_pred):
    return ops.elementwise(
        tf.squared_difference, [mtf.cast(y_true, y_pred.dtype), y_pred])
