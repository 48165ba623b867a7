"""Which rows make a batch, and which of them a process reads."""

import numpy as np

from meshkeras.errors import ArgumentError


def num_steps(num_rows, global_batch):
  """Returns ceil(num_rows / global_batch), whatever the mesh.

  Raises:
    ArgumentError: the global batch is not a whole number of at least 1.

  Example:
    >>> num_steps(10, 4)
    3
  """
  if not _is_whole(global_batch) or global_batch < 1:
    raise ArgumentError(
        "batch_size: %r given; accepted is a whole number of at least 1, the "
        "size of the global batch. Change it." % (global_batch,))
  return -(-num_rows // int(global_batch))


def padded_batch_size(global_batch, num_parts):
  """Returns the global batch rounded up to a multiple of `num_parts`.

  Args:
    global_batch: examples of one step over all processes.
    num_parts: processors along the axis that splits the batch.

  Example:
    >>> padded_batch_size(10, 4)
    12
  """
  return -(-global_batch // num_parts) * num_parts


def _is_whole(value):
  return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def steps_to_run(where, name, limit, num_rows, global_batch):
  """Returns how many steps to run: `limit`, or all if it is None.

  Args:
    where: the method, for the message.
    name: what it calls the limit.
    limit: as the user gave it.
    num_rows: how many rows there are.
    global_batch: examples of one step.

  Raises:
    ArgumentError: the limit is no whole number from 1 to all steps.

  Example:
    >>> steps_to_run("fit", "steps_per_epoch", 2, 10, 4)
    2
  """
  most = num_steps(num_rows, global_batch)
  if limit is None:
    return most
  if not _is_whole(limit) or not 1 <= limit <= most:
    raise ArgumentError(
        "%s: %s=%r given; accepted is a whole number from 1 to %d, the steps "
        "of %d rows at batch_size %d, or None for all. Change it, or give "
        "more rows." % (where, name, limit, most, num_rows, global_batch))
  return int(limit)


def permutation(num_rows, seed, epoch):
  """Returns the order of the rows in one epoch: a function of its arguments.

  Every process computes the same one. It is made of a generator's raw bits,
  whose values NumPy promises to keep, so that the same seed gives the same
  order with every NumPy version.

  Args:
    num_rows: how many rows there are.
    seed: any whole number.
    epoch: counted from 0.

  Returns: int64 array [num_rows].

  Example:
    >>> permutation(4, seed=0, epoch=0), permutation(4, seed=0, epoch=1)
    (array([3, 2, 1, 0]), array([1, 2, 0, 3]))
  """
  words = np.random.SeedSequence([seed % (1 << 64), epoch])
  keys = np.random.PCG64(words).random_raw(num_rows)
  return np.argsort(keys, kind="stable")


class RowOrder:
  """The rows of each step of one epoch.

  Args:
    num_rows: how many rows there are.
    global_batch: examples of one step over all processes.
    permutation: int array [num_rows], or None for the order given.

  Raises:
    ArgumentError: the global batch is not a whole number of at least 1.

  Example:
    >>> order = RowOrder(5, 2, permutation=np.array([4, 2, 0, 1, 3]))
    >>> [order.rows_of_step(step).tolist() for step in range(3)]
    [[4, 2], [0, 1], [3]]
  """

  def __init__(self, num_rows, global_batch, permutation=None):
    self._num_rows = num_rows
    self._num_steps = num_steps(num_rows, global_batch)
    self._global_batch = int(global_batch)
    self._permutation = permutation

  @property
  def num_rows(self):
    return self._num_rows

  @property
  def global_batch(self):
    return self._global_batch

  @property
  def num_steps(self):
    return self._num_steps

  def num_real_rows(self, step):
    """Returns the rows of the global batch at `step` that are no padding."""
    begin = step * self._global_batch
    return max(0, min(self._global_batch, self._num_rows - begin))

  def rows_of_step(self, step, begin=0, end=None):
    """Returns the numbers of the rows in a part of a step's global batch.

    Args:
      step: counted from 0 in the epoch.
      begin, end: positions in the padded global batch; all of it if not
        given. Positions of pad rows yield nothing.

    Returns: a slice when the rows follow each other, else an int64 array.
    """
    num_real = self.num_real_rows(step)
    end = num_real if end is None else min(end, num_real)
    origin = step * self._global_batch
    rows = slice(origin + min(begin, end), origin + end)
    return rows if self._permutation is None else self._permutation[rows]


class BatchReader:
  """The batches of one source, in one order, padded to one size.

  Args:
    source: an ArraySource or a source of weights.
    order: RowOrder over the source's rows.
    padded_batch: rows of the padded global batch, at least the global batch;
      pad rows are zeros, in weights as in data, so that they count nowhere.

  Example:
    >>> from meshkeras.data.sources import ArraySource
    >>> source = ArraySource([1, 2, 3], "fit: y", (), "int32")
    >>> reader = BatchReader(source, RowOrder(3, 2), padded_batch=2)
    >>> reader.read(0, [(0, 2)]), reader.read(1, [(0, 2)])
    (array([1, 2], dtype=int32), array([3, 0], dtype=int32))
  """

  def __init__(self, source, order, padded_batch):
    self._source = source
    self._order = order
    self._padded_batch = padded_batch

  @property
  def num_steps(self):
    return self._order.num_steps

  @property
  def padded_batch(self):
    return self._padded_batch

  def num_real_rows(self, step):
    """Returns the rows of the global batch at `step` that are no padding."""
    return self._order.num_real_rows(step)

  def read(self, step, box, dtype=None):
    """Returns one processor's slice of a step's batch.

    Only the rows and the columns of the box are touched in the user's
    array; rows that follow each other are read as one piece.

    Args:
      step: counted from 0 in the epoch.
      box: ((begin, end), ...) in the padded global batch, the batch first.
      dtype: of the result; the source's if not given.

    Returns: a new array with the box's sizes.
    """
    (begin, end), columns = box[0], tuple(box[1:])
    rows = self._order.rows_of_step(step, begin, end)
    part = self._source.read(rows, columns)
    num_pads = (end - begin) - len(part)
    if num_pads:
      pads = np.zeros((num_pads,) + part.shape[1:], part.dtype)
      part = np.concatenate([part, pads])
    return part if dtype is None else part.astype(dtype, copy=False)
