"""Sums of loss and metrics over many steps, reduced when asked for."""

import numpy as np

from meshkeras.mesh import host_collectives


class Totals:
  """What this process has added up, a step's partial sums at a time."""

  def __init__(self, sums=None, num_rows=0):
    self._sums = None if sums is None else np.asarray(sums, np.float64)
    self._num_rows = num_rows

  def state(self):
    """Returns (sums of each process, rows) as JSON-able values.

    Called by: every process. One collective.
    """
    own = None if self._sums is None else self._sums.tolist()
    return host_collectives.gather_objects(own), self._num_rows

  def add(self, sums, num_rows):
    """Adds one step's partial sums, as `Program.run` returns them."""
    self._sums = sums if self._sums is None else self._sums + sums
    self._num_rows += num_rows

  def reduce(self, program, extra=()):
    """Returns ({name: float}, extra sums), equal on every process.

    Args:
      program: Program whose metrics the sums are of.
      extra: numbers to add up over the processes in the same collective.

    Called by: every process. One collective.
    """
    extra = np.asarray(extra, np.float64)
    totals = host_collectives.sum_over_processes(
        np.concatenate([self._sums, extra]))
    sums = totals[:len(self._sums)]
    num_values = self._num_rows * program.values_per_row
    logs = {"loss": float(sums[0] / num_values)}
    position = 1
    for metric, _ in program.metrics:
      count = program.num_sums[metric]
      logs[metric.name] = float(
          metric.result([float(s) for s in sums[position:position + count]]))
      position += count
    return logs, totals[len(self._sums):]
