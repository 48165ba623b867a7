"""Gradients at every split against finite differences of NumPy (B25)."""

import functools

import numpy as np
import pytest

from tests.parallel.gradients_cases import (
  FUNCTIONS,
  inputs_of,
  named_cases,
  output_gradient,
  run_function,
  simulated,
)

SUITE = "gradients"
STEP = 1e-3
CASES = [(n,) + case for n in (2, 4) for case in named_cases(n)]


@functools.lru_cache(maxsize=None)
def finite_differences(name):
  """Returns the gradients of sum(dy * f) by central differences."""
  function = FUNCTIONS[name]
  inputs, dy = inputs_of(function), output_gradient(function)

  def total():
    return np.sum(dy * function.numpy(*inputs))

  gradients = []
  for array in inputs:
    gradient = np.empty_like(array)
    for position in np.ndindex(*array.shape):
      value = array[position]
      array[position] = value + STEP
      above = total()
      array[position] = value - STEP
      gradient[position] = (above - total()) / (2 * STEP)
      array[position] = value
    gradients.append(gradient)
  return gradients


def check(name, found):
  function = FUNCTIONS[name]
  np.testing.assert_allclose(
      found["output"], function.numpy(*inputs_of(function)), 1e-12, 1e-12)
  for number, wanted in enumerate(finite_differences(name)):
    np.testing.assert_allclose(
        found["gradient %d" % number], wanted, 1e-8, 1e-8,
        err_msg="gradient of input %d" % number)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_in_one_process_equals_differences(name):
  check(name, run_function(FUNCTIONS[name], lambda: simulated("a:1", "")))


@pytest.mark.parametrize("num_processes, name, mesh, layout", CASES)
def test_gradient_on_processes_equals_differences(
    by_rank, num_processes, name, mesh, layout):
  del mesh  # in the test's name
  for found in by_rank(num_processes, "%s, %s" % (name, layout)):
    check(name, found)


@pytest.mark.parametrize("name, mesh, layout", named_cases(4))
def test_gradient_simulated_equals_differences(name, mesh, layout):
  check(name, run_function(
      FUNCTIONS[name], lambda: simulated(mesh, layout)))
