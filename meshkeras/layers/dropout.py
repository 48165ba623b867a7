"""Dropout."""

from meshkeras import ops
from meshkeras.layers import context
from meshkeras.layers.arguments import fraction
from meshkeras.layers.layer import Layer
from meshkeras.upstream import mtf


class Dropout(Layer):
  """In training, y = x / (1 - rate) with probability 1 - rate, else 0.

  Which values are dropped depends on the model's seed, the layer's name,
  the step and the global position alone: masks are bit-equal at every
  layout. Elsewhere y = x.

  Args:
    rate: from 0 to 1.
    seed: None, or a number that takes part in choosing the values.

  Dimensions:
    x, y: [batch, ...], the same

  When split:
    any dim: no traffic.

  Raises:
    ArgumentError: rate is not from 0 to 1.

  Example:
    >>> Dropout(0.5).get_config()["rate"]
    0.5
  """

  def __init__(self, rate, seed=None, **options):
    super().__init__(**options)
    self.rate = fraction(self.label, "rate", rate)
    self.seed = seed

  def call(self, x, training=False):
    if not training or self.rate == 0:
      return x
    name = context.current().unique_name(self.path)
    if self.seed is not None:
      name = "%s/%d" % (name, self.seed)
    if self.rate == 1:
      return mtf.zeros_like(x)
    mask = ops.dropout_mask(x.mesh, x.shape, self.rate, name, x.dtype)
    return mtf.multiply(x, mask)
