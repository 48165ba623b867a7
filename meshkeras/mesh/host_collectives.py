"""Collectives on NumPy arrays, outside any model's graph.

For what happens once per epoch or less: totals of metrics, agreement on
errors, full values of variables. Each keeps one small graph per kind and
type in a session of its own. With one process they return at once.
"""

import json

import numpy as np

from meshkeras import errors, upstream
from meshkeras.errors import ProcessSetError
from meshkeras.mesh import calls
from meshkeras.mesh.process_sets import current_job
from meshkeras.mesh.sessions import session_config
from meshkeras.upstream import tf

_APART = (
    "The processes are in different methods: rank 0 in %s, rank %d in %s. "
    "Call every method on every process, also those that save, load or "
    "return values: take the call out of `if rank == 0` and the like. "
    "meshkeras itself has only process 0 print and commit.")
_FAILED = "rank %d of %d, in %s: "
_NO_METHOD = "none of meshkeras's"


class _HostSession:
  """The session and the compiled callables of the host collectives."""

  def __init__(self):
    self._graph = tf.Graph()
    self._session = tf.Session(
        graph=self._graph, config=session_config(current_job()))
    self._callables = {}

  def gather(self, array):
    """Returns the 1-D arrays of all processes, one after the other."""
    if array.dtype not in self._callables:
      with self._graph.as_default():
        placeholder = tf.placeholder(array.dtype, [None])
        result = upstream.horovod().allgather(
            placeholder, name="host.%s" % array.dtype.name,
            ignore_name_scope=True)
      self._callables[array.dtype] = self._session.make_callable(
          result, [placeholder])
    return self._callables[array.dtype](array)


_session = []


def _gather(array):
  if not _session:
    _session.append(_HostSession())
  return _session[0].gather(array)


def gather_bytes(array):
  """Returns [bytes of process 0, bytes of process 1, ...] as uint8 arrays.

  Args:
    array: uint8 array [n]; n may differ between processes.

  Called by: every process. Two collectives.
  """
  array = np.ascontiguousarray(array, np.uint8).reshape(-1)
  if current_job().size == 1:
    return [array]
  sizes = _gather(np.array([array.size], np.int64))
  return np.split(_gather(array), np.cumsum(sizes)[:-1])


def gather_objects(value):
  """Returns the JSON-able `value` of every process, by rank.

  Called by: every process. One collective.

  Raises:
    ProcessSetError: the processes are in different methods.
    MeshKerasError: another process has failed; of that error's class.
  """
  found = _gather_lines([calls.path(), value, None])
  for rank, (path, _, failure) in enumerate(found):
    if failure:
      raise _heard(*failure, _FAILED % (rank, len(found), path or _NO_METHOD))
  for rank, (path, _, _) in enumerate(found):
    if path != found[0][0]:
      raise _heard("ProcessSetError", _APART % (
          found[0][0] or _NO_METHOD, rank, path or _NO_METHOD))
  return [value for _, value, _ in found]


def tell_failure(error):
  """Tells the other processes, in their next collective, of an error.

  Called by: processes that raise; the others call `gather_objects`.
  """
  _gather_lines([calls.path(), None, [type(error).__name__, str(error)]])


def _gather_lines(value):
  # A line each: JSON text on its own has no line ends.
  text = json.dumps(value).encode("utf-8") + b"\n"
  if current_job().size > 1:
    text = _gather(np.frombuffer(text, np.uint8)).tobytes()
  return [json.loads(line.decode("utf-8")) for line in text.splitlines()]


def mark_known(error):
  """Marks an error that all processes know of already."""
  error.meshkeras_known = True
  return error


def is_known(error):
  """Whether `mark_known` has marked the error."""
  return hasattr(error, "meshkeras_known")


def _heard(class_name, text, where=""):
  """Returns an error of a class of meshkeras's, marked as known to all."""
  base = getattr(errors, class_name, None)
  if not (isinstance(base, type) and issubclass(base, errors.MeshKerasError)):
    base, text = ProcessSetError, "%s: %s" % (class_name, text)
  return mark_known(base(where + text))


def sum_over_processes(values):
  """Returns float64 values added up over all processes, in their order.

  Args:
    values: sequence of numbers, equally many on every process; few, as each
      process gets all of them and adds by itself.

  Called by: every process.

  Raises:
    ProcessSetError: the processes are in different methods.
  """
  array = np.asarray(values, np.float64).reshape(-1)
  if current_job().size == 1:
    return array
  return np.sum(gather_objects(array.tolist()), axis=0)


def from_chief(value):
  """Returns process 0's JSON-able `value` on every process."""
  job = current_job()
  return gather_objects(value if job.is_chief else None)[0]


def barrier():
  """Returns when every process has called it.

  Raises:
    ProcessSetError: the processes are in different methods.
  """
  gather_objects(None)


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
