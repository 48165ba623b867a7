"""Checks of constructor arguments, with the messages layers share."""

from meshkeras.errors import ArgumentError


def whole_number(where, name, value, least=1):
  """Returns `value` as an int of at least `least`.

  Raises:
    ArgumentError: it is none.

  Example:
    >>> whole_number("Dense", "units", 8)
    8
  """
  whole = not isinstance(value, bool) and hasattr(value, "__index__")
  if not whole or int(value) < least:
    raise ArgumentError(
        "%s: %s=%r given; accepted is a whole number of at least %d. Give "
        "such a number." % (where, name, value, least))
  return int(value)


def pair(where, name, value):
  """Returns `value`, a whole number or two of them, as (rows, columns).

  Raises:
    ArgumentError: it is neither, or a number is below 1.

  Example:
    >>> pair("Conv2D", "kernel_size", 3)
    (3, 3)
  """
  values = value if isinstance(value, (tuple, list)) else (value, value)
  if len(values) != 2:
    raise ArgumentError(
        "%s: %s=%r given; accepted is a whole number, or two of them for "
        "rows and columns. Give one or two numbers." % (where, name, value))
  return tuple(whole_number(where, name, v) for v in values)


def fraction(where, name, value):
  """Returns `value` as a float from 0 to 1.

  Raises:
    ArgumentError: it is none.
  """
  number = _number(value)
  if number is None or not 0 <= number <= 1:
    raise ArgumentError(
        "%s: %s=%r given; accepted is a number from 0 to 1. Give such a "
        "number." % (where, name, value))
  return number


def positive(where, name, value, zero=False):
  """Returns `value` as a float above 0, or from 0 on if `zero`.

  Raises:
    ArgumentError: it is none.
  """
  number = _number(value)
  if number is None or not (number > 0 or zero and number == 0):
    raise ArgumentError(
        "%s: %s=%r given; accepted is a number %s. Give such a number."
        % (where, name, value, "of at least 0" if zero else "above 0"))
  return number


def choice(where, name, value, accepted):
  """Returns `value` in lower case if it is one of the words `accepted`.

  Raises:
    ArgumentError: it is not.
  """
  word = value.lower() if isinstance(value, str) else value
  if word not in accepted:
    raise ArgumentError(
        "%s: %s=%r given; accepted are %s. Give one of them."
        % (where, name, value, ", ".join(repr(a) for a in accepted)))
  return word


def _number(value):
  try:
    return None if isinstance(value, bool) else float(value)
  except (TypeError, ValueError):
    return None
