"""AdamW: Adam with decoupled weight decay, Loshchilov and Hutter (2017)."""

from meshkeras.layers.arguments import positive
from meshkeras.optimizers.adam import Adam
from meshkeras.optimizers.optimizer import matches
from meshkeras.upstream import tf


class AdamW(Adam):
  """weight -= learning_rate * weight_decay * weight, then a step of Adam.

  Args:
    learning_rate: at least 0, or a schedule.
    weight_decay: at least 0.
    beta_1: as Adam.
    beta_2: as Adam.
    epsilon: as Adam.
    name: see Optimizer.

  Raises:
    ArgumentError: a number out of range.

  Example:
    >>> AdamW(1e-3).get_config()["weight_decay"]
    0.004
  """

  def __init__(self, learning_rate=0.001, weight_decay=0.004, **options):
    super().__init__(learning_rate, **options)
    self.weight_decay = positive(
        "AdamW", "weight_decay", weight_decay, zero=True)
    self._excluded = ()

  def exclude_from_weight_decay(self, var_names):
    """Leaves weights out of the decay; call it before the model compiles.

    Args:
      var_names: sequence of regular expressions, such as "bias"; a weight
        whose name one of them occurs in is left out.
    """
    self._excluded = tuple(var_names)

  def update(self, weight, slots, gradient, hyperparameters):
    if not self.weight_decay or matches(
        weight.operation.name, self._excluded):
      return super().update(weight, slots, gradient, hyperparameters)
    return [self.change_by(
        self.decayed_step, weight, slots, gradient, hyperparameters)]

  def decayed_step(self, weight, momentum, velocity, gradient, rate,
                   *powers):
    """Returns the tf.Operation of decay and step of one slice."""
    decay = tf.cast(rate, gradient.dtype) * self.weight_decay
    decayed = tf.raw_ops.AssignSubVariableOp(
        resource=weight.handle, value=weight.read_value() * decay)
    # A step that reads the gradient only after the decay cannot overtake it.
    with tf.control_dependencies([decayed]):
      gradient = tf.identity(gradient)
    return self.step(weight, momentum, velocity, gradient, rate, *powers)
