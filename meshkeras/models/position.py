"""Where a fit is: the epoch, the step in it, and what it has added up."""

import numpy as np

from meshkeras.errors import CheckpointError
from meshkeras.models.totals import Totals

_OTHER_DATA = (
    "fit: the checkpoint was made after step %d of epoch %d with %s; fit has "
    "%s, in which that step is another place. Give the data, batch_size, "
    "shuffle and metrics that it was made with, or a checkpoint from an "
    "epoch's end.")


class Position:
  """The next step of a fit: global state, the same at any mesh.

  Args:
    epoch: counted from 0.
    step: steps done in it.
    totals: Totals of those steps.
  """

  def __init__(self, epoch, step=0, totals=None):
    self.epoch = epoch
    self.step = step
    self.totals = totals or Totals()

  def state(self):
    """Returns it as JSON-able values.

    Called by: every process; within an epoch one collective.
    """
    sums, num_rows = self.totals.state() if self.step else ([], 0)
    return {"epoch": self.epoch, "step_in_epoch": self.step,
            "sums": sums, "num_rows": num_rows}

  @classmethod
  def from_state(cls, state, data_state, job):
    """Returns the Position that `state` is of.

    Args:
      state: dict of what `state` returned, and "data".
      data_state: what "data" must be for a step to be the same place.
      job: Job; sums of a job of another size go to process 0.

    Raises:
      CheckpointError: the data differ and an epoch has begun.
    """
    epoch, step = state["epoch"], state["step_in_epoch"]
    if not step:
      return cls(epoch)
    data = dict(state["data"])
    data.setdefault("metrics", data_state["metrics"])  # the first checkpoints
    if data != data_state:
      raise CheckpointError(_OTHER_DATA % (
          step, epoch, _words(data), _words(data_state)))
    sums = np.array(state["sums"], np.float64)
    if len(sums) == job.size:
      own = sums[job.rank]
    else:
      own = sums.sum(axis=0) if job.is_chief else np.zeros(sums.shape[1])
    return cls(epoch, step, Totals(own, state["num_rows"]))


def _words(data_state):
  return ", ".join("%s=%s" % item for item in sorted(data_state.items()))
