"""A number that callbacks watch, and which of two of its values is better."""

import math
import re
import warnings

from meshkeras.errors import ArgumentError, near_names

LOWER_IS_BETTER = (
    r"(^|_)(loss|error|mse|mae|mape|msle|rmse|hinge|poisson|divergence|"
    r"perplexity|crossentropy)$")
HIGHER_IS_BETTER = (
    r"(^|_)(acc|accuracy|auc|precision|recall|score|f1|iou)(_\d+)?$")


class Monitor:
  """The best value so far of one entry of `logs`.

  Args:
    where: name of the callback, for messages.
    name: the entry, for example "val_loss".
    mode: "min", "max", or "auto", which knows the usual names.
    min_delta: a smaller gain counts as none; at least 0.

  Raises:
    ArgumentError: the mode is none of these, or "auto" cannot tell.

  Example:
    >>> monitor = Monitor("EarlyStopping", "val_accuracy")
    >>> monitor.update(0.5), monitor.update(0.4), monitor.best
    (True, False, 0.5)
  """

  def __init__(self, where, name, mode="auto", min_delta=0.0):
    if mode not in ("auto", "min", "max"):
      raise ArgumentError(
          "%s: mode=%r given; accepted is 'auto', 'min' or 'max'. Change it."
          % (where, mode))
    if mode == "auto":
      mode = _mode_of(name)
    if mode is None:
      raise ArgumentError(
          "%s: monitor=%r with mode='auto' given; the name does not tell "
          "whether lower or higher is better. Pass mode='min' or mode='max'."
          % (where, name))
    self._where = where
    self._name = name
    self._sign = -1.0 if mode == "min" else 1.0
    self._min_delta = abs(min_delta)
    self._warned = False
    self.best = None

  def value(self, logs):
    """Returns the entry of `logs`, or None in an epoch without validation.

    Raises:
      ArgumentError: there is no such entry, and no later epoch will have it.
    """
    logs = logs or {}
    if self._name in logs:
      return float(logs[self._name])
    validated = any(name.startswith("val_") for name in logs)
    if validated or not self._name.startswith("val_"):
      raise ArgumentError(
          "%s: monitor=%r given; the epoch has %s. Change monitor."
          % (self._where, self._name, near_names(self._name, logs)))
    if not self._warned:
      self._warned = True
      warnings.warn(
          "%s: the epoch has no %r, so nothing is decided after it. Give fit "
          "validation data, or monitor another value."
          % (self._where, self._name), stacklevel=2)
    return None

  def is_better(self, value, than):
    """Returns whether `value` beats `than` (None: nothing yet)."""
    if than is None:
      return not math.isnan(value)
    return self._sign * (value - than) > self._min_delta

  def update(self, value):
    """Takes `value` as the best if it is better, and returns whether."""
    if not self.is_better(value, self.best):
      return False
    self.best = value
    return True


def _mode_of(name):
  if re.search(LOWER_IS_BETTER, name):
    return "min"
  if re.search(HIGHER_IS_BETTER, name):
    return "max"
  return None
