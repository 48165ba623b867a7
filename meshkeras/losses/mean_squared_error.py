"""MeanSquaredError."""

from meshkeras import ops
from meshkeras.losses.loss import Loss, same_type
from meshkeras.upstream import tf


class MeanSquaredError(Loss):
  """mean of (y_true - y_pred) ** 2.

  Dimensions:
    y_true, y_pred: [batch, ...], the same

  When split:
    any dim: no traffic.

  Example:
    >>> MeanSquaredError().name
    'mean_squared_error'
  """

  def call(self, y_true, y_pred):
    return ops.elementwise(
        tf.squared_difference, [same_type(y_true, y_pred), y_pred])
