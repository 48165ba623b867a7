"""Paths that users give: of checkpoints and of directories of them."""

import os

from meshkeras.errors import ArgumentError


def checked_path(where, name, path):
  """Returns a path as text.

  Args:
    where: the method or class, for the message.
    name: of its argument.
    path: text or os.PathLike, as the user gave it.

  Raises:
    ArgumentError: it is nothing of these, or no path can look like it.

  Example:
    >>> checked_path("save", "path", "run/digits")
    'run/digits'
  """
  text = os.fspath(path) if hasattr(path, "__fspath__") else path
  if not isinstance(text, str) or not text or "\0" in text:
    raise ArgumentError(
        "%s: %s=%r given; accepted is the path of a directory, as text or "
        "pathlib.Path. Change it." % (where, name, path))
  return text
