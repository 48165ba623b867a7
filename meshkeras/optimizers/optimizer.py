"""The base class of optimizers."""

import re

import numpy as np

from meshkeras import ops
from meshkeras.errors import ArgumentError
from meshkeras.layers.arguments import positive
from meshkeras.layers.configured import Configured
from meshkeras.layers.layer import snake_case


class Optimizer(Configured):
  """How a weight changes by its gradient.

  The rules are componentwise, so that each process applies them to its own
  slices, and slots are laid out as their weight. Numbers that change from
  step to step are computed on the host and given to the step.

  Args:
    learning_rate: at least 0, or a schedule: a function of the number of
      steps done before.
    name: what it is called in messages; default the class's name.

  Raises:
    ArgumentError: a number out of range; a keyword that the class does not
      accept.
  """

  def __init__(self, learning_rate, name=None, **options):
    self.take_options(options)
    self.name = name or snake_case(type(self).__name__)
    self.iterations = 0
    self.learning_rate = learning_rate

  @property
  def learning_rate(self):
    """The rate of the next step, a float. May be set between steps."""
    return self.learning_rate_at(self.iterations)

  @learning_rate.setter
  def learning_rate(self, value):
    if not callable(value):
      value = positive(
          type(self).__name__, "learning_rate", value, zero=True)
    self._learning_rate = value

  @property
  def scheduled(self):
    """Whether the rate is a function of the steps done."""
    return callable(self._learning_rate)

  def learning_rate_at(self, iteration):
    """Returns the rate of the step after `iteration` others, a float."""
    if callable(self._learning_rate):
      return float(self._learning_rate(iteration))
    return self._learning_rate

  def slots(self, weight):
    """Returns {slot name: initializer} of what it keeps per weight.

    Args:
      weight: has `name`; slots have its dims and dtype.
    """
    return {}

  def hyperparameters(self, iteration):
    """Returns {name: np.float32} for the step after `iteration` others."""
    return {"learning_rate": np.float32(self.learning_rate_at(iteration))}

  def numbers(self):
    """Returns {name: plain value} of what decides its steps, as it stands.

    They must be the same on every process, or the replicas of a weight
    drift apart.
    """
    found = {name: value for name, value in sorted(vars(self).items())
             if isinstance(value, (bool, int, float, str))}
    found["learning_rate"] = self.learning_rate
    return found

  def update(self, weight, slots, gradient, hyperparameters):
    """Returns a list of mtf.Operation that change weight and slots.

    Args:
      weight: mtf.Tensor, the value of a variable.
      slots: {slot name: mtf.Tensor}, values of variables.
      gradient: mtf.Tensor.
      hyperparameters: {name: scalar mtf.Tensor}, as from `hyperparameters`.

    Dimensions:
      weight, slots, gradient: the same
    """
    raise NotImplementedError(type(self).__name__)

  def get_config(self):
    config = super().get_config()
    if callable(self._learning_rate):
      config["learning_rate"] = {
          "class_name": type(self._learning_rate).__name__,
          "config": self._schedule_config()}
    return config

  def _schedule_config(self):
    if not hasattr(self._learning_rate, "get_config"):
      raise ArgumentError(
          "%s: a schedule of type %s cannot be written to a config; accepted "
          "are numbers and objects with get_config. Define get_config on it."
          % (type(self).__name__, type(self._learning_rate).__name__))
    return self._learning_rate.get_config()


def change(values, inputs, rule):
  """Returns the mtf.Operation that applies a rule to variables in place.

  Args:
    values: mtf.Tensor, values of variables: a weight and its slots.
    inputs: mtf.Tensor of the same dims, or scalars.
    rule: function (tf resource variables..., tf.Tensor...) -> tf.Operation,
      componentwise; called once per slice.

  When split:
    any dim: no traffic, but a sum that is not reduced yet is.
  """
  variables = [value.operation for value in values]
  return ops.apply_update(
      variables, inputs,
      lambda slices, local_inputs: rule(*slices, *local_inputs))


def power(base, iteration):
  """Returns base ** (iteration + 1) of the float32 that kernels use.

  Of the rounded base, as 1 - base ** n is sensitive to it: for 0.999 the
  difference is 1e-5 of the result.
  """
  return np.float32(float(np.float32(base)) ** (iteration + 1))


def matches(name, patterns):
  """Returns whether one of the regular expressions occurs in `name`."""
  return any(re.search(pattern, name) for pattern in patterns)
