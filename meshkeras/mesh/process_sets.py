"""The processes of this job, and Horovod's process sets over mesh axes."""

import os

from meshkeras import upstream
from meshkeras.errors import MeshError, ProcessSetError

_LATE_INIT = (
    "Process sets: horovod.init() was called before meshkeras was imported "
    "and without dynamic process sets, so the sets of mesh %r cannot be "
    "added. Import meshkeras before calling hvd.init(), or call "
    "hvd.init(process_sets='dynamic'), or leave the call out: meshkeras "
    "makes it. Horovod said: %s")


class Job:
  """This process's place among the processes of the job.

  One object per process, from `current_job()`. With one process Horovod is
  neither imported nor needed.
  """

  def __init__(self):
    self._sets = {}
    if upstream.launched_size() > 1:
      hvd = upstream.horovod()
      if not hvd.is_initialized():
        hvd.init(process_sets="dynamic")
      self.size, self.rank = hvd.size(), hvd.rank()
      self.local_size, self.local_rank = hvd.local_size(), hvd.local_rank()
    else:
      self.size, self.rank = 1, 0
      self.local_size, self.local_rank = 1, 0

  @property
  def is_chief(self):
    """Whether this process writes to the screen."""
    return self.rank == 0

  @property
  def num_threads(self):
    """Threads for this process: the host's usable cores, shared out."""
    try:
      cores = len(os.sched_getaffinity(0))
    except AttributeError:
      cores = os.cpu_count() or 1
    return max(1, cores // self.local_size)

  def check_mesh(self, mesh):
    """Raises MeshError unless this job has one process per processor."""
    needed = 1 if mesh.simulate else mesh.size
    if mesh.simulate and self.size > 1:
      raise MeshError(
          "Mesh %r: simulate=True runs every processor in one process, but "
          "this job has %d. Start it without horovodrun, or leave out "
          "simulate." % (str(mesh), self.size))
    if needed != self.size:
      raise MeshError(
          "Mesh %r needs %d processes, one per processor; this job has %d. "
          "Start it with `horovodrun -np %d python SCRIPT.py`, or give a "
          "mesh whose sizes multiply to %d."
          % (str(mesh), needed, self.size, needed, self.size))

  def register(self, mesh):
    """Makes the process sets of every union of axes of `mesh`.

    Called by: every process, in the same order: Horovod numbers the sets
    as they come.

    Raises:
      ProcessSetError: Horovod was initialised so that none can be added.
    """
    if self.size == 1:
      return
    for axes in mesh.axis_unions():
      for ranks in mesh.groups(axes):
        if ranks not in self._sets:
          self._sets[ranks] = self._make_set(ranks, mesh)

  def _make_set(self, ranks, mesh):
    hvd = upstream.horovod()
    if len(ranks) == self.size:
      return KnownProcessSet(0, ranks, self.rank)
    try:
      made = hvd.add_process_set(list(ranks))
      return KnownProcessSet(made.process_set_id, ranks, self.rank)
    except ValueError as error:
      raise ProcessSetError(_LATE_INIT % (str(mesh), error)) from error

  def process_set(self, mesh, axes):
    """Returns the process set of this rank along `axes` of `mesh`.

    Raises:
      ProcessSetError: this rank is not on the mesh.
    """
    for ranks in mesh.groups(axes):
      if self.rank in ranks:
        return self._sets[ranks]
    raise ProcessSetError(
        "Rank %d is not on mesh %r." % (self.rank, str(mesh)))


class KnownProcessSet:
  """A Horovod process set that knows its size without asking.

  Horovod's own object asks its library at every collective that is lowered,
  which takes a lock on the table of sets that the background thread uses.

  Args:
    process_set_id: Horovod's number of the set.
    ranks: its members, ascending.
    rank: this process's global rank.
  """

  def __init__(self, process_set_id, ranks, rank):
    self.process_set_id = process_set_id
    self.ranks = list(ranks)
    self._rank = rank

  def size(self):
    return len(self.ranks)

  def rank(self):
    return self.ranks.index(self._rank)

  def included(self):
    return self._rank in self.ranks


_current = []


def current_job():
  """Returns the Job of this process, started on first use.

  Called by: every process.
  """
  if not _current:
    _current.append(Job())
  return _current[0]
