"""Collectives of a graph, by axis name, and the record of them.

The only file besides process_sets.py that calls Horovod. Horovod's Gloo
operations refuse bfloat16, bool and complex numbers: those travel in another
type (`_encode`), and half precisions are added up in float32.
"""

from typing import NamedTuple

from meshkeras import upstream
from meshkeras.errors import DimensionError
from meshkeras.upstream import tf

_BYTES = (tf.bfloat16,)
_SMALL = (tf.bool, tf.int16, tf.uint16, tf.uint32, tf.uint64)
_HALVES = (tf.bfloat16, tf.float16)


class Collective(NamedTuple):
  """One collective of a graph: what must agree between processes."""

  name: str
  kind: str
  axes: tuple
  dtype: str
  shape: tuple
  num_bytes: int

  def agreed(self):
    """The part that must be the same everywhere (alltoall sends differ)."""
    shape = self.shape[1:] if self.kind == "alltoall" else self.shape
    return (self.name, self.kind, self.axes, self.dtype, tuple(shape))


class GraphCollectives:
  """The collectives of one lowered function.

  Names are "<function>.<index>.<kind>.<axes>", from the order of lowering,
  so that every process gives one collective one name. (No "/": Horovod
  keeps only what follows the last one.)

  Args:
    job: Job.
    mesh: Mesh, registered with the job.
    function: name of the function being lowered, unique among those whose
      steps can run at the same time.
  """

  def __init__(self, job, mesh, function):
    self._job = job
    self._mesh = mesh
    self._function = function
    self.log = []

  def allreduce(self, x, axes, reduction):
    """Returns the SUM, MAX or MIN of x over the processes along `axes`."""
    hvd = upstream.horovod()
    operation = {"SUM": hvd.Sum, "MAX": hvd.Max, "MIN": hvd.Min}[reduction]
    sent, decode = _encode_for_reduction(x, reduction)
    name = self._record("allreduce_" + reduction.lower(), axes, sent)
    reduced = hvd.allreduce(
        sent, op=operation, name=name, ignore_name_scope=True,
        process_set=self._job.process_set(self._mesh, axes))
    reduced.set_shape(sent.shape)
    return decode(reduced)

  def reduce_scatter(self, x, axis):
    """Returns this process's part along dim 0 of the SUM of x over `axis`."""
    hvd = upstream.horovod()
    sent, decode = _encode_for_reduction(x, "SUM")
    name = self._record("reduce_scatter", (axis,), sent)
    part = hvd.reducescatter(
        sent, op=hvd.Sum, name=name, ignore_name_scope=True,
        process_set=self._job.process_set(self._mesh, (axis,)))
    part.set_shape([int(sent.shape[0]) // self._mesh.axis_size(axis)]
                   + sent.shape.as_list()[1:])
    return decode(part)

  def allgather(self, x, axis):
    """Returns the x of the processes along `axis`, concatenated on dim 0."""
    sent, decode = _encode(x)
    name = self._record("allgather", (axis,), sent)
    gathered = upstream.horovod().allgather(
        sent, name=name, ignore_name_scope=True,
        process_set=self._job.process_set(self._mesh, (axis,)))
    gathered.set_shape([int(sent.shape[0]) * self._mesh.axis_size(axis)]
                       + sent.shape.as_list()[1:])
    return decode(gathered)

  def alltoall(self, x, axis, splits, num_received):
    """Sends rows of x to the processes along `axis`.

    Args:
      x: tensor [sum(splits), ...].
      axis: mesh axis name.
      splits: rows for each process, in the order of the axis.
      num_received: rows that arrive here, from all of them.

    Returns: tensor [num_received, ...], in the order of the senders.
    """
    sent, decode = _encode(x)
    name = self._record("alltoall", (axis,), sent)
    received = upstream.horovod().alltoall(
        sent, splits=tf.constant(splits, tf.int32), name=name,
        ignore_name_scope=True,
        process_set=self._job.process_set(self._mesh, (axis,)))
    if isinstance(received, (tuple, list)):
      received = received[0]
    # An empty receipt keeps an unknown size: see HorovodMeshImpl._after.
    received.set_shape([num_received or None] + sent.shape.as_list()[1:])
    return decode(received)

  def reached_from(self, fetches):
    """Returns the recorded collectives that running `fetches` runs.

    Args:
      fetches: tf tensors and operations.
    """
    reached, waiting = set(), [getattr(f, "op", f) for f in fetches]
    while waiting:
      op = waiting.pop()
      if op in reached:
        continue
      reached.add(op)
      waiting.extend(x.op for x in op.inputs)
      waiting.extend(op.control_inputs)
    names = {op.name.rsplit("/", 1)[-1] for op in reached}
    return [record for record in self.log if record.name in names]

  def _record(self, kind, axes, sent):
    axes = tuple(axes)
    name = "%s.%d.%s.%s" % (
        self._function, len(self.log), kind, "-".join(axes))
    shape = tuple(sent.shape.as_list())
    size = sent.dtype.size
    for length in shape:
      size *= length
    self.log.append(Collective(
        name, kind, axes, sent.dtype.name, shape, size))
    return name


def _encode(x):
  """Returns (x in a type that Horovod moves, function that undoes it)."""
  return _encode_opaque(_opaque(x))


def _opaque(x):
  """Returns x, as something TensorFlow cannot take for a constant.

  Horovod's operations are not marked stateful, so TensorFlow evaluates one
  whose input is constant while it builds or optimises the graph: on this
  process alone, which then waits for ever for the others.
  """
  return tf.placeholder_with_default(x, x.shape)


def _encode_opaque(x):
  dtype = x.dtype.base_dtype
  if dtype.is_complex:
    real = tf.float32 if dtype == tf.complex64 else tf.float64
    return tf.bitcast(x, real), lambda y: tf.bitcast(y, dtype)
  if dtype in _BYTES:
    return tf.bitcast(x, tf.uint8), lambda y: tf.bitcast(y, dtype)
  if dtype in _SMALL:
    wide = tf.int64 if dtype in (tf.uint32, tf.uint64) else tf.int32
    return tf.cast(x, wide), lambda y: tf.cast(y, dtype)
  return x, lambda y: y


def _encode_for_reduction(x, reduction):
  """As `_encode`, in a type that is added or compared rightly."""
  dtype = x.dtype.base_dtype
  if dtype.is_complex and reduction != "SUM":
    raise DimensionError(
        "allreduce: %s of a %s tensor asked for; complex numbers have no "
        "order, SUM is accepted. Reduce the absolute value instead."
        % (reduction, dtype.name))
  if dtype == tf.bool and reduction == "SUM":
    raise DimensionError(
        "allreduce: SUM of a bool tensor asked for; MAX (any) and MIN (all) "
        "are accepted. Cast it to int32 to count.")
  x = _opaque(x)
  if dtype in _HALVES:
    return tf.cast(x, tf.float32), lambda y: tf.cast(y, dtype)
  if dtype in (tf.uint8, tf.int8):
    return tf.cast(x, tf.int32), lambda y: tf.cast(y, dtype)
  return _encode_opaque(x)
