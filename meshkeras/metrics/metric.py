"""The base class of metrics."""

from meshkeras.layers.configured import Configured
from meshkeras.layers.layer import snake_case
from meshkeras.upstream import mtf


class Metric(Configured):
  """A number reported beside the loss, as sums that are divided once.

  Each process adds up its own part of the sums over many batches; they are
  reduced when the number is asked for.

  Args:
    name: its key in logs and History; default the class's name.

  Raises:
    ArgumentError: a keyword that the class does not accept.
  """

  def __init__(self, name=None, **options):
    self.take_options(options)
    self.name = name or snake_case(type(self).__name__)

  def sums(self, y_true, y_pred, weights):
    """Returns a list of scalar mtf.Tensor, sums over the batch.

    Each ends in a reduce_sum, of which the model fetches the part before
    its collective.

    Args:
      y_true: mtf.Tensor, the batch first.
      y_pred: mtf.Tensor, the batch first.
      weights: float32 mtf.Tensor, 0 for pad rows.

    Dimensions:
      weights: [batch]
    """
    raise NotImplementedError(type(self).__name__)

  def result(self, totals):
    """Returns the metric, a float.

    Args:
      totals: what `sums` returns, added up over batches and processes:
        floats.
    """
    raise NotImplementedError(type(self).__name__)


def weighted_sums(values, weights):
  """Returns [sum of values * weights, sum of weights over all values].

  Args:
    values: mtf.Tensor.
    weights: float32 mtf.Tensor.

  Dimensions:
    values: [batch, ...]
    weights: [batch]
  """
  values = mtf.cast(values, weights.dtype)
  per_row = values.shape.size // weights.shape.size
  return [mtf.reduce_sum(values * weights),
          mtf.reduce_sum(weights * float(per_row))]
