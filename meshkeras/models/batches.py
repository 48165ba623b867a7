"""From the user's arrays to what one process feeds to a step."""

from typing import Any, NamedTuple

from meshkeras import data
from meshkeras.errors import DataError, MeshKerasError, OrderError
from meshkeras.layers.layer import BATCH
from meshkeras.mesh import host_collectives
from meshkeras.mesh.process_sets import current_job

# Labels are checked for their range this many rows at a time.
CHECKED_ROWS = 65536


class Given(NamedTuple):
  """What the user gave: arrays [rows, ...], and {class: weight}."""

  x: Any
  y: Any = None
  sample_weight: Any = None
  class_weight: Any = None


class Batches:
  """Checked arrays, cut into batches for one Program.

  Args:
    where: the words that open an error, "fit" or "evaluate".
    sources: list of sources: x, then y and weights unless predicting.
    num_rows: of each.
  """

  def __init__(self, where, sources, num_rows):
    self.where = where
    self.num_rows = num_rows
    self._sources = sources

  def order(self, global_batch, permutation=None):
    """Returns the RowOrder of one epoch."""
    return data.RowOrder(self.num_rows, global_batch, permutation)

  def reader(self, program, order):
    """Returns a function step -> list of arrays for `Program.run`."""
    readers = [data.BatchReader(source, order, program.padded_batch)
               for source in self._sources]

    def read(step):
      return [reader.read(step, box)
              for reader, boxes in zip(readers, program.input_boxes)
              for box in boxes]

    return read


def prepare(where, model, given, *, predict=False, arguments=None):
  """Returns Batches of the user's arrays, checked on all processes at once.

  Args:
    where: the words that open an error.
    model: built and, unless predicting, compiled with a loss.
    given: Given.
    predict: whether y and weights are not wanted.
    arguments: JSON-able values of the method's other arguments, on which
      the number of steps depends.

  Called by: every process. One small collective.

  Raises:
    DataError: lengths, shapes, types or labels do not fit; on every
      process, naming the ranks.
    ProcessSetError: the processes have other shapes or arguments.
  """
  problem, sources, signature = None, [], None
  try:
    sources = _sources(where, model, given, predict)
    signature = [[s.num_rows] + [list(d) for d in s.dims] for s in sources]
    if sources[0].dtype.kind in "iu":
      problem = _value_problem(
          "%s: x" % where, sources[0], model.check_input)
    if not predict and problem is None:
      problem = _value_problem(
          "%s: y" % where, sources[1],
          lambda rows: model.loss.check_target(rows, model.output_shape))
  except MeshKerasError as error:
    problem = str(error)
  host_collectives.agree(problem, DataError)
  host_collectives.check_equal("%s: the shape of the data" % where, signature)
  if arguments is not None:
    host_collectives.check_equal("%s: an argument" % where, arguments)
  return Batches(where, sources, sources[0].num_rows)


def _sources(where, model, given, predict):
  spec = model.input
  x_source = data.ArraySource(
      given.x, "%s: x" % where, list(zip(spec.dims, spec.shape)), spec.dtype)
  if predict:
    return [x_source]
  if model.loss is None:
    raise OrderError(
        "%s: the model was compiled without a loss. Give compile a loss."
        % where)
  shape = model.output_shape
  target = [(d.name, d.size) for d in model.loss.target_shape(shape).dims
            if d.name != BATCH]
  y_source = data.ArraySource(
      given.y, "%s: y" % where, target,
      model.loss.target_dtype.as_numpy_dtype)
  weights = data.row_weights(
      where, x_source.num_rows, given.sample_weight, given.y,
      given.class_weight)
  data.check_row_counts(where, x=x_source, y=y_source, sample_weight=weights)
  return [x_source, y_source, weights]


def _value_problem(where, source, check):
  """Checks this process's share of an array; returns a text or None."""
  job = current_job()
  begin = source.num_rows * job.rank // job.size
  end = source.num_rows * (job.rank + 1) // job.size
  box = tuple((0, size) for _, size in source.dims)
  for first in range(begin, end, CHECKED_ROWS):
    last = min(first + CHECKED_ROWS, end)
    problem = check(source.read(slice(first, last), box))
    if problem:
      return "%s, rows counted from %d: %s" % (where, first, problem)
  return None
