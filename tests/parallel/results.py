"""What workers write, one line per case and rank, and how tests read it."""

import base64
import json
import os

import numpy as np

from meshkeras.upstream import tf


def encode(value):
  """Returns `value` as JSON can hold it: arrays as bytes, bit for bit."""
  if isinstance(value, (np.ndarray, np.generic)):
    array = np.ascontiguousarray(value)
    return {"array": base64.b64encode(array.tobytes()).decode("ascii"),
            "dtype": array.dtype.name, "shape": list(np.shape(value))}
  if isinstance(value, dict):
    return {"dict": [[key, encode(item)] for key, item in value.items()]}
  if isinstance(value, (list, tuple)):
    return [encode(item) for item in value]
  return value


def decode(value):
  """Undoes `encode`; tuples come back as lists."""
  if isinstance(value, list):
    return [decode(item) for item in value]
  if isinstance(value, dict) and "array" in value:
    data = base64.b64decode(value["array"])
    # NumPy does not know "bfloat16" by name.
    array = np.frombuffer(data, tf.as_dtype(value["dtype"]).as_numpy_dtype)
    return array.reshape(value["shape"])
  if isinstance(value, dict):
    return {key: decode(item) for key, item in value["dict"]}
  return value


def path_of(directory, rank):
  return os.path.join(str(directory), "rank-%d.jsonl" % rank)


class Writer:
  """One rank's file of results; every line is on disk when written."""

  def __init__(self, directory, rank):
    self._file = open(path_of(directory, rank), "a", encoding="utf-8")

  def begin(self, case):
    self._write({"case": case, "began": True})

  def end(self, case, value=None, error=None, seconds=0.0):
    self._write({"case": case, "value": encode(value), "error": error,
                 "seconds": round(seconds, 2)})

  def _write(self, line):
    self._file.write(json.dumps(line) + "\n")
    self._file.flush()


class CaseError(AssertionError):
  """A case of a worker raised, or hung, on some process."""


class Results:
  """The results of all ranks of the launches of one number of processes.

  Args:
    directory: where the workers write.
    num_processes: how many write.
  """

  def __init__(self, directory, num_processes):
    self._directory = directory
    self._num_processes = num_processes
    self._launches = []
    self._read = (0, [[] for _ in range(num_processes)])

  def add(self, launch):
    """Keeps a Launch, for messages."""
    self._launches.append(launch)

  def progress(self):
    """Returns a number that grows with every line of any rank."""
    return sum(
        os.path.getsize(path) for path in self._paths()
        if os.path.exists(path))

  def began(self):
    """Returns the names of the cases that some rank has begun."""
    return {line["case"] for lines in self._lines() for line in lines}

  def by_rank(self, case):
    """Returns [what `case` returned on rank 0, on rank 1, ...].

    Raises:
      CaseError: it raised or did not end on some rank; the message says
        which ranks, and ends with their traceback or output.
    """
    values, failures = [], []
    for rank, lines in enumerate(self._lines()):
      found = [line for line in lines if line["case"] == case]
      ended = [line for line in found if "error" in line]
      if not ended:
        failures.append("rank %d: %s" % (
            rank, "began and did not end" if found else "did not begin"))
      elif ended[-1]["error"]:
        failures.append("rank %d: %s" % (rank, ended[-1]["error"]))
      else:
        values.append(decode(ended[-1]["value"]))
    if failures:
      raise CaseError("case %r on %d processes failed:\n%s\n%s" % (
          case, self._num_processes, "\n".join(failures),
          self._told(any("did not" in text for text in failures))))
    return values

  def output(self):
    """Returns what all launches have written to the screen."""
    return "\n".join(launch.output for launch in self._launches)

  def _told(self, wanted):
    if not wanted:
      return ""
    return "\n".join(
        "-- launch of %.0f s, %s:\n%s" % (
            launch.seconds, "stalled and ended" if launch.stalled
            else "exit code %s" % launch.code, launch.tail())
        for launch in self._launches)

  def _paths(self):
    return [path_of(self._directory, rank)
            for rank in range(self._num_processes)]

  def _lines(self):
    """Returns the lines of each rank, read again only if there are more."""
    size = self.progress()
    if self._read[0] != size:
      self._read = (size, [_read_lines(path) for path in self._paths()])
    return self._read[1]


def _read_lines(path):
  if not os.path.exists(path):
    return []
  with open(path, encoding="utf-8") as file:
    # A process that was killed may leave half a line.
    return [json.loads(line) for line in file if line.endswith("\n")]
