"""The seed of everything random: weights, dropout, the order of rows."""

from meshkeras.errors import ArgumentError

_seed = [0]


def set_random_seed(seed):
  """Sets the seed of the models compiled from now on; it is 0 before.

  The seed is fixed unless it is set, so that a script gives the same
  numbers twice and on any number of processes.

  Args:
    seed: a whole number, the same on every process.

  Raises:
    ArgumentError: it is no whole number.
  """
  if isinstance(seed, bool) or not isinstance(seed, int):
    raise ArgumentError(
        "set_random_seed: %r given; accepted is a whole number. Change it."
        % (seed,))
  _seed[0] = seed


def current_seed():
  """Returns the seed in force."""
  return _seed[0]
