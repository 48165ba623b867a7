"""Mean, the base of most metrics."""

from meshkeras.metrics.metric import Metric, weighted_sums


class Mean(Metric):
  """The mean of one value per sample, or per sample and position.

  Subclass it and define `values`. By itself it is the mean of the
  predictions.

  Args:
    name: see Metric.

  Dimensions:
    y_pred: [batch, ...]

  When split:
    any dim: no traffic in a step.

  Example:
    >>> Mean().result([6.0, 4.0])
    1.5
  """

  def values(self, y_true, y_pred):
    """Returns mtf.Tensor [batch, ...] of the values to average."""
    return y_pred

  def sums(self, y_true, y_pred, weights):
    return weighted_sums(self.values(y_true, y_pred), weights)

  def result(self, totals):
    total, count = totals
    return float(total) / float(count) if count else 0.0


class FunctionMean(Mean):
  """The mean of a function (y_true, y_pred) -> mtf.Tensor [batch, ...].

  Args:
    function: of two mtf.Tensor.
    name: default the function's name.
  """

  def __init__(self, function, name=None, **options):
    super().__init__(name or getattr(function, "__name__", None), **options)
    self.function = function

  def values(self, y_true, y_pred):
    return self.function(y_true, y_pred)
