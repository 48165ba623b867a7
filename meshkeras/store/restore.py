"""Restoring a store from a checkpoint of any mesh, layout and job size.

The order:
1. process 0 reads the index and all use its text,
2. names, dims and types are compared,
3. of variables that hold values each process verifies the bytes it needs,
4. variables without values get theirs, verified as they are read,
5. variables with values get others, one at a time,
6. processes that hold the same part compare what they have set (B23).

The outcome is agreed after each of 3 to 5. What fails in 3 or 4
changes no value: a variable that had none has none again.
"""

import os
from typing import NamedTuple

from meshkeras.errors import CheckpointError, MeshKerasError
from meshkeras.mesh import host_collectives
from meshkeras.mesh.dimension import format_dims
from meshkeras.mesh.process_sets import current_job
from meshkeras.store import manifest as manifest_lib
from meshkeras.store import shard_files
from meshkeras.store.box_reader import BoxReader
from meshkeras.store.commit import wait_for_saves
from meshkeras.store.paths import checked_path
from meshkeras.store.replicas import Replicas
from meshkeras.store.shard_reader import ShardReader

_LOAD_WHAT_FITS = (
    "Build the model that was saved; or strict=False loads what fits and "
    "returns these lists.")
_REBUILD = (
    "Build the model that was saved and compile it with the same optimizer; "
    "or load_weights loads weights alone, and with strict=False what fits.")
_DAMAGED_MEANWHILE = (
    "%s That happened while variables were set: some have changed. Load a "
    "checkpoint again.")


class Differences(NamedTuple):
  """How a checkpoint's variables and a store's differ; lists of text.

  Attributes:
    missing: in the model, not in the checkpoint.
    unexpected: in the checkpoint, not in the model.
    mismatched: in both with other dims or another type.
  """

  missing: list
  unexpected: list
  mismatched: list

  def __bool__(self):
    return bool(self.missing or self.unexpected or self.mismatched)

  def report(self, directory, advice):
    """Returns the one message of all of them, and what to do."""
    lines = ["%s: its variables are not the model's:" % directory]
    for what, names in zip(
        ("missing in the checkpoint", "not in the model",
         "of another shape or type"), self):
      lines += ["  %s: %s" % (what, name) for name in names]
    return "\n".join(lines + [advice])


def read_agreed(directory):
  """Returns the Manifest of a checkpoint, the same on every process.

  Process 0 reads the index; each process looks for all shards by itself, and
  reads the headers of a share of them.

  Called by: every process.

  Raises:
    CheckpointError: it is no complete checkpoint; on every process.
  """
  directory = checked_path("load", "path", directory)
  wait_for_saves()
  found = {"text": None, "problem": None}
  if current_job().is_chief:
    try:
      found["text"] = manifest_lib.index_text(directory)
    except MeshKerasError as error:
      found["problem"] = str(error)
  found = host_collectives.from_chief(found)
  if found["problem"]:
    raise CheckpointError(found["problem"])
  manifest = manifest_lib.parse(found["text"], directory)
  job = current_job()
  own_share = sorted(manifest.files)[job.rank::job.size]
  host_collectives.agree(
      manifest_lib.file_problem(directory, manifest)
      or shard_files.header_problem(directory, manifest, own_share),
      CheckpointError)
  return manifest


def differences(store, manifest, roles):
  """Returns the Differences between the variables of some roles.

  Args:
    store: VariableStore.
    manifest: Manifest.
    roles: ("weight",) or ("weight", "slot").
  """
  wanted = {v.name: v for v in store if v.role in roles}
  found = {name: v for name, v in manifest.variables.items()
           if v.role in roles}
  mismatched = []
  for name, stored in wanted.items():
    if name not in found:
      continue
    ours = "[%s] %s" % (format_dims(stored.dims), stored.dtype.name)
    theirs = "[%s] %s" % (format_dims(found[name].dims), found[name].dtype)
    if ours != theirs:
      mismatched.append("%s: %s in the checkpoint, %s in the model"
                        % (name, theirs, ours))
  return Differences([name for name in wanted if name not in found],
                     [name for name in found if name not in wanted],
                     mismatched)


def restore(store, directory, manifest, roles, strict=True):
  """Sets the variables of a store from a checkpoint.

  Args:
    store: VariableStore, of any mesh and layout.
    directory: of the checkpoint.
    manifest: Manifest, from `read_agreed`.
    roles: which variables: ("weight",) or ("weight", "slot").
    strict: whether every variable must fit; else those that do are set.

  When split:
    any dim: no traffic; a process reads what its slices need and verifies
      every block of bytes it uses.
  Called by: every process.

  Returns: Differences, all empty if strict.
  Raises:
    CheckpointError: on every process; no variable has changed.
  """
  directory = os.fspath(directory)
  found = differences(store, manifest, roles)
  if strict and found:
    raise CheckpointError(found.report(
        directory, _LOAD_WHAT_FITS if roles == ("weight",) else _REBUILD))
  names = _fitting(store, manifest, roles, found)
  held = [name for name in names if store[name].initialized]
  new = [name for name in names if not store[name].initialized]
  with ShardReader(directory) as shards:
    reader = _StoreReader(store, manifest, BoxReader(shards))
    host_collectives.agree(reader.verify(held), CheckpointError)
    problem = reader.assign(new)
    try:
      host_collectives.agree(problem, CheckpointError)
    except MeshKerasError:
      for name in new:
        store[name].initialized = False
      raise
    problem = reader.assign(held)
    host_collectives.agree(
        problem and _DAMAGED_MEANWHILE % problem, CheckpointError)
    reader.replicas.check(directory)
  return found


def _fitting(store, manifest, roles, found):
  mismatched = {text.split(": ", 1)[0] for text in found.mismatched}
  return [v.name for v in store
          if v.role in roles and v.name in manifest.variables
          and v.name not in mismatched]


class _StoreReader:
  """Reads what the variables of a store need of a checkpoint.

  Methods return None, or what went wrong on this process: whatever it is, it
  must reach the other processes, which wait.
  """

  def __init__(self, store, manifest, boxes):
    self._store = store
    self._variables = manifest.variables
    self._boxes = boxes
    self.replicas = Replicas(store)

  def verify(self, names):
    try:
      self._boxes.verify(self._wanted(names))
    except Exception as error:
      return _text(error)
    return None

  def assign(self, names):
    arrays = self._boxes.read(self._wanted(names))
    try:
      for name in names:
        self._store.write_slices(name, self._slices(name, arrays))
    except Exception as error:
      return _text(error)
    return None

  def _wanted(self, names):
    return [(self._variables[name], box)
            for name in names for box in self._store[name].boxes.values()]

  def _slices(self, name, arrays):
    for rank in self._store[name].boxes:
      value = next(arrays)
      self.replicas.add(name, rank, value)
      yield rank, value


def _text(error):
  if isinstance(error, CheckpointError):
    return str(error)
  return "the checkpoint cannot be loaded (%s: %s)." % (
      type(error).__name__, error)
