"""A learning rate that is a function of the epoch."""

import inspect
import math
import numbers

from meshkeras.errors import ArgumentError
from meshkeras.models.hooks import Callback


class LearningRateScheduler(Callback):
  """Sets the learning rate at the start of each epoch.

  Args:
    schedule: function (epoch, learning_rate) -> learning_rate, or one of
      the epoch alone; the epoch is counted from 0. It must return the same
      on every process.
    verbose: 1 writes a line per epoch.

  Raises:
    ArgumentError: schedule is no function, or returns no finite number.
  """

  def __init__(self, schedule, verbose=0):
    if not callable(schedule):
      raise ArgumentError(
          "LearningRateScheduler: schedule=%r given; accepted is a function "
          "of (epoch, learning_rate). Pass one." % (schedule,))
    self.schedule = schedule
    self.verbose = verbose
    self._takes_rate = _takes_two(schedule)

  def on_epoch_begin(self, epoch, logs=None):
    optimizer = self.model.optimizer
    if self._takes_rate:
      rate = self.schedule(epoch, float(optimizer.learning_rate))
    else:
      rate = self.schedule(epoch)
    if not isinstance(rate, numbers.Real) or not math.isfinite(rate):
      raise ArgumentError(
          "LearningRateScheduler: schedule returned %r for epoch %d; "
          "accepted is a finite number. Change the function."
          % (rate, epoch))
    optimizer.learning_rate = float(rate)
    if self.verbose:
      self.announce("Epoch %d: learning rate %g" % (epoch + 1, rate))

  def on_epoch_end(self, epoch, logs=None):
    if logs is not None:
      logs["learning_rate"] = float(self.model.optimizer.learning_rate)


def _takes_two(schedule):
  try:
    inspect.signature(schedule).bind(0, 0.0)
  except TypeError:
    return False
  except ValueError:  # a built-in without a signature
    return True
  return True
