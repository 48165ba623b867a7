"""Writing to the screen once, whatever the number of processes."""

import sys

from meshkeras.mesh.process_sets import current_job


def announce(*words):
  """Prints the words on one line, on process 0 alone.

  Called by: every process, so that a script needs no rank.

  Args:
    *words: anything `str` can turn into text.

  Example:
    >>> announce("accuracy:", 0.97)
    accuracy: 0.97
  """
  if current_job().is_chief:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()
