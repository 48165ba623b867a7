"""SGD: steps against the gradient, with or without momentum."""

from meshkeras.layers import initializers
from meshkeras.layers.arguments import fraction
from meshkeras.optimizers.optimizer import Optimizer, change
from meshkeras.upstream import tf


class SGD(Optimizer):
  """weight -= learning_rate * gradient.

  With momentum m: velocity = m * velocity - learning_rate * gradient, and
  weight += velocity; with nesterov
  weight += m * velocity - learning_rate * gradient.

  Args:
    learning_rate: at least 0, or a schedule.
    momentum: from 0 to 1; 0 keeps no slot.
    nesterov: whether the step looks ahead.
    name: see Optimizer.

  Raises:
    ArgumentError: a number out of range.

  Example:
    >>> SGD(0.1, momentum=0.9).get_config()["momentum"]
    0.9
  """

  def __init__(self, learning_rate=0.01, momentum=0.0, nesterov=False,
               name=None, **options):
    super().__init__(learning_rate, name, **options)
    self.momentum = fraction("SGD", "momentum", momentum)
    self.nesterov = bool(nesterov)

  def slots(self, weight):
    return {"momentum": initializers.Zeros()} if self.momentum else {}

  def update(self, weight, slots, gradient, hyperparameters):
    inputs = [gradient, hyperparameters["learning_rate"]]
    if not self.momentum:
      return [change([weight], inputs, _plain)]
    return [change(
        [weight, slots["momentum"]], inputs, self._with_momentum)]

  def _with_momentum(self, weight, velocity, gradient, rate):
    return tf.raw_ops.ResourceApplyKerasMomentum(
        var=weight.handle, accum=velocity.handle,
        lr=tf.cast(rate, gradient.dtype), grad=gradient,
        momentum=tf.constant(self.momentum, gradient.dtype),
        use_nesterov=self.nesterov)


def _plain(weight, gradient, rate):
  return tf.raw_ops.ResourceApplyGradientDescent(
      var=weight.handle, alpha=tf.cast(rate, gradient.dtype), delta=gradient)
