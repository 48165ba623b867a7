"""Collectives on NumPy arrays, outside any model's graph.

For what happens once per epoch or less: totals of metrics, agreement on
errors, full values of variables. Each keeps one small graph per kind and
type in a session of its own. With one process they return at once.
"""

import json

import numpy as np

from meshkeras import upstream
from meshkeras.errors import ProcessSetError
from meshkeras.mesh.process_sets import current_job
from meshkeras.mesh.sessions import session_config
from meshkeras.upstream import tf


class _HostSession:
  """The session and the compiled callables of the host collectives."""

  def __init__(self):
    self._graph = tf.Graph()
    self._session = tf.Session(
        graph=self._graph, config=session_config(current_job()))
    self._callables = {}

  def run(self, kind, array, build):
    key = (kind, array.dtype.str, array.ndim)
    if key not in self._callables:
      with self._graph.as_default():
        placeholder = tf.placeholder(array.dtype, [None] * array.ndim)
        name = "host.%s.%s.%d" % (kind, array.dtype.name, array.ndim)
        result = build(placeholder, name)
      self._callables[key] = self._session.make_callable(
          result, [placeholder])
    return self._callables[key](array)


_session = []


def _run(kind, array, build):
  if not _session:
    _session.append(_HostSession())
  return _session[0].run(kind, array, build)


def sum_over_processes(values):
  """Returns float64 values added up over all processes.

  Args:
    values: sequence of numbers, equally many on every process.

  Called by: every process.
  """
  array = np.asarray(values, np.float64).reshape(-1)
  if current_job().size == 1:
    return array
  hvd = upstream.horovod()
  return _run("sum", array, lambda x, name: hvd.allreduce(
      x, op=hvd.Sum, name=name, ignore_name_scope=True))


def gather_bytes(array):
  """Returns [bytes of process 0, bytes of process 1, ...] as uint8 arrays.

  Args:
    array: uint8 array [n]; n may differ between processes.

  Called by: every process.
  """
  array = np.ascontiguousarray(array, np.uint8).reshape(-1)
  job = current_job()
  if job.size == 1:
    return [array]
  hvd = upstream.horovod()
  sizes = _run("sizes", np.array([array.size], np.int64),
               lambda x, name: hvd.allgather(
                   x, name=name, ignore_name_scope=True))
  flat = _run("bytes", array, lambda x, name: hvd.allgather(
      x, name=name, ignore_name_scope=True))
  return np.split(flat, np.cumsum(sizes)[:-1])


def gather_objects(value):
  """Returns the JSON-able `value` of every process, by rank.

  Called by: every process.
  """
  text = json.dumps(value).encode("utf-8")
  return [json.loads(part.tobytes().decode("utf-8"))
          for part in gather_bytes(np.frombuffer(text, np.uint8))]


def from_chief(value):
  """Returns process 0's JSON-able `value` on every process."""
  job = current_job()
  return gather_objects(value if job.is_chief else None)[0]


def barrier():
  """Returns when every process has called it."""
  sum_over_processes([0.0])


def agree(problem, error_class):
  """Raises on all processes if any process has a problem.

  Args:
    problem: text, or None if all is well here.
    error_class: the MeshKerasError class to raise.

  Called by: every process. One small collective.

  Raises:
    error_class: naming the ranks when not all of them have the problem.
  """
  problems = gather_objects(problem)
  found = {rank: text for rank, text in enumerate(problems) if text}
  if not found:
    return
  if len(set(problems)) == 1:
    raise error_class(problems[0])
  raise error_class("\n".join(
      "rank %d of %d: %s" % (rank, len(problems), text)
      for rank, text in sorted(found.items())))


def check_equal(what, value):
  """Raises ProcessSetError unless the JSON-able `value` is one everywhere.

  Args:
    what: the words that open the error.
    value: what must be equal on every process.
  """
  values = gather_objects(value)
  for rank, other in enumerate(values):
    if other != values[0]:
      raise ProcessSetError(
          "%s differs between processes: rank 0 has %s, rank %d has %s. "
          "Every process must run the same script on the same values; "
          "remove what depends on the rank."
          % (what, values[0], rank, other))
