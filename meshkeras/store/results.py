"""What each process of a save has written, told to process 0."""

import json
import os
import threading
import time

from meshkeras.store import debris
from meshkeras.store.manifest import SliceEntry

# How often process 0 looks for the others' results of an asynchronous save,
# and how long it still does when its own script has ended.
POLL_SECONDS = 0.02
GRACE_SECONDS = 30.0


class Result:
  """The shards that one process wrote, or why it could not."""

  def __init__(self):
    self.problem = None
    self.files = {}
    self.slices = []

  def add(self, name, size, entries):
    """Adds a shard and the (variable, SliceEntry) pairs in it."""
    self.files[name] = size
    self.slices += list(entries)

  def plain(self):
    """Returns it as JSON-able values."""
    return {"problem": self.problem, "files": self.files,
            "slices": [[name] + list(entry) for name, entry in self.slices]}

  @classmethod
  def from_plain(cls, plain):
    result = cls()
    result.problem, result.files = plain["problem"], plain["files"]
    result.slices = [
        (name, SliceEntry(file, tuple(begin), tuple(shape), *rest))
        for name, file, begin, shape, *rest in plain["slices"]]
    return result


def problems(found):
  """Returns None, or the problems of a list of Result, by rank."""
  return join_problems([result.problem for result in found])


def join_problems(texts):
  """Returns None, or one text of the problems of each rank."""
  told = ["rank %d of %d: %s" % (rank, len(texts), text)
          for rank, text in enumerate(texts) if text]
  return "; ".join(told) or None


def parts_by_variable(found):
  """Returns {variable: [SliceEntry]}, by position."""
  parts = {}
  for result in found:
    for name, entry in result.slices:
      parts.setdefault(name, []).append(entry)
  return {name: sorted(entries, key=lambda entry: entry.begin)
          for name, entries in parts.items()}


def leave(directory, token, rank, result):
  """Puts a process's Result where process 0 finds it.

  Returns: None, or the problem.
  """
  path = os.path.join(directory, debris.RESULT_NAME % (rank, token))
  try:
    debris.write_flushed(path + ".part", json.dumps(
        {"save": token, **result.plain()}))
    os.replace(path + ".part", path)
  except OSError as error:
    return "%s: %s" % (type(error).__name__, error)
  return None


def collect(directory, token, num_processes, cancelled):
  """Waits for the Result of every process; None if there is no more hope.

  Args:
    directory, token: of the save.
    num_processes: of the job.
    cancelled: threading.Event that ends the wait.
  """
  found, ended_at = {}, None
  while len(found) < num_processes:
    for rank in range(num_processes):
      if rank not in found:
        found.update(_look(directory, token, rank))
    if len(found) == num_processes:
      break
    if cancelled.wait(POLL_SECONDS):
      return None
    if not threading.main_thread().is_alive():
      ended_at = ended_at or time.monotonic()
      if time.monotonic() - ended_at > GRACE_SECONDS:
        return None
  remove(directory, token, num_processes)
  return [found[rank] for rank in range(num_processes)]


def _look(directory, token, rank):
  path = os.path.join(directory, debris.RESULT_NAME % (rank, token))
  try:
    with open(path, encoding="utf-8") as file:
      return {rank: Result.from_plain(json.load(file))}
  except OSError:
    return {}


def remove(directory, token, num_processes):
  """Removes the results of a save."""
  for rank in range(num_processes):
    try:
      os.unlink(os.path.join(directory, debris.RESULT_NAME % (rank, token)))
    except OSError:
      pass
