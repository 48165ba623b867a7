"""Which checkpoints a directory holds, complete ones only."""

import os

from meshkeras.errors import CheckpointError, MeshKerasError
from meshkeras.mesh import host_collectives
from meshkeras.mesh.process_sets import current_job
from meshkeras.mesh.together import on_every_process
from meshkeras.store import debris, manifest
from meshkeras.store.commit import wait_for_saves
from meshkeras.store.paths import checked_path


@on_every_process
def latest_checkpoint(directory):
  """Returns the path of the newest complete checkpoint, or None.

  It is judged by contents alone: an index that can be read and shards of
  the sizes it lists. The newest is the one saved last, by the time in the
  index, so that copies count as what they are copies of.

  Args:
    directory: of checkpoints, or itself a checkpoint.

  Called by: every process; process 0 looks, all get the same answer.

  Raises:
    CheckpointError: a save that ran behind the caller's back has failed.
  """
  directory = checked_path("latest_checkpoint", "directory", directory)
  wait_for_saves()
  found = None
  if current_job().is_chief:
    found = newest(directory)
  return host_collectives.from_chief(found)


@on_every_process
def holds_index(directory):
  """Returns whether a save has been committed to a directory.

  Called by: every process; process 0 looks, all get the same answer.

  Raises:
    CheckpointError: a save that ran behind the caller's back has failed.
  """
  wait_for_saves()
  return host_collectives.from_chief(
      os.path.lexists(os.path.join(directory, manifest.INDEX_NAME)))


@on_every_process
def contents_of(directory):
  """Returns "weights", "training" or "model", or None if it is incomplete.

  Called by: every process; process 0 looks, all get the same answer.
  """
  header = complete_header(directory) if current_job().is_chief else None
  return host_collectives.from_chief((header or {}).get("contents"))


def newest(directory):
  """As `latest_checkpoint`, for one process by itself."""
  found = []
  for path in [directory] + _subdirectories(directory):
    header = complete_header(path)
    if header is not None:
      found.append((header.get("saved_at", 0), header.get("step", 0), path))
  return max(found)[-1] if found else None


def complete_header(path):
  """Returns the index's header of a complete checkpoint, else None."""
  try:
    return manifest.read(path).header
  except MeshKerasError:
    return None


def _subdirectories(directory):
  try:
    names = sorted(os.listdir(directory))
  except OSError:
    return []
  paths = [os.path.join(directory, name) for name in names]
  return [path for path in paths if os.path.isdir(path)]


@on_every_process
def delete_checkpoint(path, wait=True):
  """Removes a checkpoint's files; the directory if it holds no others.

  Args:
    path: of the checkpoint.
    wait: whether to wait for a save that runs behind the caller's back; it
      must be to another directory if not.

  Called by: every process; process 0 removes, all return after it.

  Raises:
    CheckpointError: an index is left, because it cannot be removed.
  """
  path = checked_path("delete_checkpoint", "path", path)
  if wait:
    wait_for_saves()
  problem = None
  if current_job().is_chief:
    debris.remove_checkpoint(path)
    if os.path.exists(os.path.join(path, manifest.INDEX_NAME)):
      problem = ("%s: the checkpoint cannot be removed. Allow writing to the "
                 "directory, or remove it by hand." % path)
  problem = host_collectives.from_chief(problem)
  if problem:
    raise CheckpointError(problem)
