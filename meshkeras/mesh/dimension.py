"""A named tensor dimension."""

import re
from typing import NamedTuple

from meshkeras.errors import DimensionError

NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")


class Dimension(NamedTuple):
  """The name and the size of one dimension of a tensor.

  It equals, and hashes like, Mesh TensorFlow's own Dimension.

  Args:
    name: what a layout rule calls it.
    size: number of positions, whole and at least 1.

  Example:
    >>> Dimension("hidden", 1024)
    Dimension(name='hidden', size=1024)
  """

  name: str
  size: int

  def __str__(self):
    return "%s=%d" % (self.name, self.size)


def check_name(name, where):
  """Returns `name` if a layout rule can hold it.

  Args:
    name: the dimension's or axis's name.
    where: the words that open the error, for example "Dense 'dense_1'".

  Raises:
    DimensionError: it is no string, or has a character such as ':' or ','
      that a layout's text form uses.
  """
  if not isinstance(name, str) or not NAME_PATTERN.match(name):
    raise DimensionError(
        "%s: dimension name %r given; accepted are letters, digits, '_', "
        "'-' and '.', the first a letter or '_'. Use such a name."
        % (where, name))
  return name


def format_dims(dims):
  """Returns "batch=128, hidden=1024" for a message or a table."""
  return ", ".join("%s=%d" % (name, size) for name, size in dims)
