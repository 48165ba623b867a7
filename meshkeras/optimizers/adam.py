"""Adam: Kingma and Ba (2014)."""

from meshkeras.layers import initializers
from meshkeras.layers.arguments import fraction, positive
from meshkeras.optimizers.optimizer import Optimizer, change, power
from meshkeras.upstream import tf


class Adam(Optimizer):
  """weight -= rate * momentum / (sqrt(velocity) + epsilon).

  momentum and velocity are running means of the gradient and its square;
  rate is learning_rate * sqrt(1 - beta_2 ** n) / (1 - beta_1 ** n) at step
  n.

  Args:
    learning_rate: at least 0, or a schedule.
    beta_1: from 0 to 1, the share of momentum that stays.
    beta_2: from 0 to 1, the share of velocity that stays.
    epsilon: at least 0.
    name: see Optimizer.

  Raises:
    ArgumentError: a number out of range.

  Example:
    >>> Adam(1e-3).get_config()["epsilon"]
    1e-07
  """

  def __init__(self, learning_rate=0.001, beta_1=0.9, beta_2=0.999,
               epsilon=1e-7, name=None, **options):
    super().__init__(learning_rate, name, **options)
    where = type(self).__name__
    self.beta_1 = fraction(where, "beta_1", beta_1)
    self.beta_2 = fraction(where, "beta_2", beta_2)
    self.epsilon = positive(where, "epsilon", epsilon, zero=True)

  def slots(self, weight):
    return {"momentum": initializers.Zeros(),
            "velocity": initializers.Zeros()}

  def hyperparameters(self, iteration):
    found = super().hyperparameters(iteration)
    found["beta_1_power"] = power(self.beta_1, iteration)
    found["beta_2_power"] = power(self.beta_2, iteration)
    return found

  def update(self, weight, slots, gradient, hyperparameters):
    return [self.change_by(
        self.step, weight, slots, gradient, hyperparameters)]

  def change_by(self, rule, weight, slots, gradient, hyperparameters):
    """Returns the mtf.Operation of one rule; see `step` for what it gets."""
    return change(
        [weight, slots["momentum"], slots["velocity"]],
        [gradient, hyperparameters["learning_rate"],
         hyperparameters["beta_1_power"], hyperparameters["beta_2_power"]],
        rule)

  def step(self, weight, momentum, velocity, gradient, *scalars):
    """Returns the tf.Operation of one step of one slice.

    Args:
      weight: tf resource variable.
      momentum: tf resource variable.
      velocity: tf resource variable.
      gradient: tf.Tensor.
      *scalars: tf.Tensor: learning rate, beta_1_power, beta_2_power.
    """
    dtype = gradient.dtype
    rate, beta_1_power, beta_2_power = [tf.cast(s, dtype) for s in scalars]
    return tf.raw_ops.ResourceApplyAdam(
        var=weight.handle, m=momentum.handle, v=velocity.handle,
        beta1_power=beta_1_power, beta2_power=beta_2_power, lr=rate,
        beta1=tf.constant(self.beta_1, dtype),
        beta2=tf.constant(self.beta_2, dtype),
        epsilon=tf.constant(self.epsilon, dtype), grad=gradient)
