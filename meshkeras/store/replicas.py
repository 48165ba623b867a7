"""That processes which hold the same part of a variable hold the same values.

A replica that differs trains on in silence and drifts away from the others;
so what was set is compared, once, where it is set from outside.
"""

from meshkeras.errors import CheckpointError
from meshkeras.mesh import host_collectives
from meshkeras.store.checksums import checksum

_DIFFER = (
    "%s: variable %r: ranks %d and %d hold the same part (%s) and have set "
    "values of the checksums %s and %s. Some variables have changed. See "
    "that all processes read the same files, and load again.")


class Replicas:
  """The checksums of the values that this process has set.

  Args:
    store: VariableStore.
  """

  def __init__(self, store):
    self._store = store
    self._found = {}

  def add(self, name, rank, value):
    """Takes down what a local processor's slice of a variable was set to."""
    if len(self._store.replica_group(name, rank)) > 1:
      self._found.setdefault(name, {})[rank] = checksum(value)

  def check(self, where):
    """Compares the checksums of all processes.

    Args:
      where: what the error begins with.

    Called by: every process. One small collective.

    Raises:
      CheckpointError: replicas differ; on every process.
    """
    merged = {}
    for found in host_collectives.gather_objects(self._found):
      for name, by_rank in found.items():
        merged.setdefault(name, {}).update(
            (int(rank), value) for rank, value in by_rank.items())
    for name, by_rank in merged.items():
      for rank, value in sorted(by_rank.items()):
        first = self._store.replica_group(name, rank)[0]
        if by_rank[first] != value:
          raise CheckpointError(_DIFFER % (
              where, name, first, rank, self._store.part_text(name, rank),
              by_rank[first], value))
