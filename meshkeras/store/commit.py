"""Saving a store: every process writes its shards, one commits the index.

The order of a save:
1. the processes agree on the directory and on what is saved,
2. process 0 makes the directory and chooses a token that no save had,
3. every process writes its shards, under names with the token, to disk,
4. the results are gathered,
5. process 0 writes the index aside and renames it onto `meshkeras.json`,
6. every process learns the outcome; old shards are removed.

Step 5's rename is the one act that makes the checkpoint. Before it the
directory holds what it held before, complete; after it, the new one.
"""

import os
import secrets
import threading
import time
import zlib

from meshkeras.errors import CheckpointError
from meshkeras.mesh import host_collectives, slices
from meshkeras.mesh.process_sets import current_job
from meshkeras.mesh.together import on_every_process
from meshkeras.store import debris, results, shard_files, stages
from meshkeras.store.manifest import (
  INDEX_NAME,
  Manifest,
  VariableEntry,
  file_problem,
)
from meshkeras.store.owners import pieces_by_rank
from meshkeras.store.paths import checked_path

_FAILED = (
    "%s: the checkpoint was not written: %s. What was there before is as it "
    "was. Free or choose another place, and save again.")

# Values read at a time: what a save needs of memory is some of these.
READ_BYTES = 1 << 23

_pending = []


def save(store, directory, header, names=None, asynchronous=False):
  """Writes variables of a store as a checkpoint.

  Args:
    store: VariableStore.
    directory: the same on every process, on a file system they share. It
      may hold a checkpoint, which is replaced in one act.
    header: dict of JSON-able values for the index; process 0's is written.
    names: of the variables; None for all.
    asynchronous: copy the values and write them behind the caller's back.
      The next save, load or `wait_for_saves` waits for the end.

  When split:
    any dim: no values travel; four small collectives.
  Called by: every process.

  Raises:
    CheckpointError: on every process, with the reason and the ranks that
      have it; what the directory held is as it was.
  """
  directory = checked_path("save", "path", directory)
  wait_for_saves()
  running = Save(store, directory, header,
                 store.names() if names is None else list(names),
                 asynchronous)
  if asynchronous:
    _pending.append(running)
    running.start()
  else:
    running.run()


@on_every_process
def wait_for_saves():
  """Returns when no save runs behind the caller's back.

  Called by: every process.

  Raises:
    CheckpointError: the save that was running has failed.
  """
  while _pending:
    _pending.pop().wait()


class Save:
  """One save; see `save` for the arguments."""

  def __init__(self, store, directory, header, names, asynchronous):
    self._job = current_job()
    self._store = store
    self._directory = directory
    self._header = dict(header, mesh=str(store.mesh),
                        layout=str(store.layout))
    self._variables = {name: _describe(store[name]) for name in names}
    self._pieces = pieces_by_rank(
        self._variables.values(), store.layout, store.mesh)
    self._agree_on_what(bool(asynchronous))
    self._token = self._open_directory()
    self._copies = self._copy() if asynchronous else None
    # Of an asynchronous save.
    self._written = threading.Event()
    self._cancelled = threading.Event()
    self._problem = None
    self._outcome = None
    self._thread = None

  # 1. and 2.

  def _agree_on_what(self, asynchronous):
    problem = None
    try:
      for variable in self._variables.values():
        shard_files.check_type(variable.name, variable.dtype)
    except CheckpointError as error:
      problem = str(error)
    host_collectives.agree(problem, CheckpointError)
    described = repr(sorted(self._variables.values())).encode("utf-8")
    host_collectives.check_equal(
        "save: the directory, asynchronous or the variables' checksum",
        [self._directory, asynchronous, "%08x" % zlib.crc32(described)])

  def _open_directory(self):
    """Returns the save's token, once process 0 has the directory."""
    opened = {"token": secrets.token_hex(8), "problem": None}
    self._made_directory = False
    if self._job.is_chief:
      stages.reach("before_directory")
      try:
        self._made_directory = not os.path.isdir(self._directory)
        os.makedirs(self._directory, exist_ok=True)
      except OSError as error:
        opened["problem"] = "the directory cannot be made (%s)" % error
      stages.reach("after_directory")
    opened = host_collectives.from_chief(opened)
    if opened["problem"]:
      raise CheckpointError(_FAILED % (self._directory, opened["problem"]))
    return opened["token"]

  # 3. Writing

  def _copy(self):
    """Returns {(rank, piece): values}, once every process has its own."""
    copies, problem = {}, None
    try:
      for rank in self._store.local_ranks:
        for piece in self._pieces[rank]:
          copies[rank, piece] = self._store.read_box(
              piece.name, rank, piece.box)
    # Any failure here must reach the other processes, which wait.
    except Exception as error:
      problem = "%s: %s" % (type(error).__name__, error)
    problem = results.join_problems(host_collectives.gather_objects(problem))
    if problem:
      self._end(problem)
    return copies

  def _read(self, rank, piece):
    """Yields the values of a piece, some rows at a time."""
    if self._copies is not None:
      yield self._copies.pop((rank, piece))
      return
    itemsize = self._variables[piece.name].itemsize
    for box in slices.chunks(piece.box, READ_BYTES // itemsize):
      yield self._store.read_box(piece.name, rank, box)

  def _shard_name(self, rank):
    return debris.SHARD_NAME % (rank, self._store.mesh.size, self._token)

  def _write(self):
    """Writes this process's shards; returns its `results.Result`."""
    written = results.Result()
    try:
      for rank in self._store.local_ranks:
        pieces = self._pieces[rank]
        if pieces:
          name = self._shard_name(rank)
          entries, size = shard_files.write_shard(
              os.path.join(self._directory, name),
              [(self._variables[p.name], p.box) for p in pieces],
              lambda i, rank=rank, pieces=pieces: self._read(rank, pieces[i]),
              {"writer": shard_files.WRITER, "save": self._token})
          written.add(name, size, zip((p.name for p in pieces), entries))
    # Any failure here must reach the other processes, which wait.
    except Exception as error:
      written.problem = "%s: %s" % (type(error).__name__, error)
    return written

  # 4. to 6., at once

  def run(self):
    """Does the whole save; every process returns or raises together."""
    written = self._write()
    stages.reach("before_gather")
    found = [results.Result.from_plain(plain)
             for plain in host_collectives.gather_objects(written.plain())]
    stages.reach("after_gather")
    problem = results.problems(found)
    if not problem:
      if self._job.is_chief:
        problem = self._commit(found)
      problem = host_collectives.from_chief(problem)
    self._end(problem)

  def _commit(self, found):
    """Writes the index; returns None, or why it could not."""
    try:
      for variable, parts in results.parts_by_variable(found).items():
        self._variables[variable] = self._variables[variable]._replace(
            slices=tuple(parts))
      manifest = Manifest(
          dict(self._header, save=self._token, saved_at=time.time()),
          {name: size for result in found
           for name, size in result.files.items()},
          self._variables)
      problem = file_problem(self._directory, manifest)
      if problem:
        return "process 0 does not see what others wrote: %s" % problem
      self._write_index(manifest.to_text())
    # Any failure here must reach the other processes, which wait.
    except Exception as error:
      return "%s: %s" % (type(error).__name__, error)
    stages.reach("before_removal")
    debris.remove_debris(self._directory, keep=manifest.files)
    stages.reach("after_removal")
    return None

  def _write_index(self, text):
    path = os.path.join(self._directory, INDEX_NAME)
    aside = os.path.join(self._directory, debris.ASIDE_NAME % self._token)
    stages.reach("before_index")
    try:
      debris.write_flushed(aside, text)
      stages.reach("after_index")
      debris.flush_directory(self._directory)
      stages.reach("before_commit")
      os.replace(aside, path)
    except BaseException:
      shard_files.remove_quietly(aside)
      raise
    stages.reach("after_commit")
    # It is committed: nothing after this may call it a failure.
    debris.flush_directory(self._directory)
    if self._made_directory:
      debris.flush_directory(
          os.path.dirname(os.path.abspath(self._directory)))

  def _end(self, problem):
    if not problem:
      return
    for rank in self._store.local_ranks:
      shard_files.remove_quietly(
          os.path.join(self._directory, self._shard_name(rank)))
    if self._job.is_chief and self._made_directory:
      debris.remove_if_empty(self._directory)
    raise CheckpointError(_FAILED % (self._directory, problem))

  # 4. to 6., behind the caller's back. Collectives belong to the main
  # thread, so the threads of the processes meet in the directory.

  def start(self):
    """Begins to write in a thread, which a script's end waits for."""
    self._thread = threading.Thread(target=self._work, daemon=False)
    self._thread.start()

  def _work(self):
    # A started process must not be left waiting, whatever goes wrong here.
    try:
      written = self._write()
      self._problem = written.problem or results.leave(
          self._directory, self._token, self._job.rank, written)
    except Exception as error:
      self._problem = "%s: %s" % (type(error).__name__, error)
    finally:
      self._written.set()
    if not self._job.is_chief or self._problem:
      return
    stages.reach("before_gather")
    found = results.collect(self._directory, self._token, self._job.size,
                            self._cancelled)
    stages.reach("after_gather")
    if found is None:
      return
    self._outcome = results.problems(found) or self._commit(found)

  def wait(self):
    """Ends an asynchronous save; every process returns or raises together."""
    self._written.wait()
    problem = results.join_problems(
        host_collectives.gather_objects(self._problem))
    if problem:
      self._cancelled.set()
    self._thread.join()
    if not problem:
      problem = host_collectives.from_chief(self._outcome)
    if problem and self._job.is_chief:
      results.remove(self._directory, self._token, self._job.size)
    self._end(problem)


def _describe(stored):
  return VariableEntry(stored.name, stored.dims, stored.dtype.name,
                       bool(stored.trainable), stored.role, ())
