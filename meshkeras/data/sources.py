"""The user's arrays, checked once and read in parts."""

import math

import numpy as np

from meshkeras.errors import ArgumentError, DataError

# Values looked at together when a float array is checked for whole numbers.
SCAN_VALUES = 1 << 18


class ArraySource:
  """The rows of one array, in the dims and the dtype the model reads.

  Nothing is copied when it is made: a memory map stays on disk, and each
  read takes only the rows and the columns asked for.

  A last dimension of size 1 that only one side has is dropped or added, as
  Keras does: an array of shape (N, 1) serves dims (), one of shape (N,)
  serves dims of sizes (1,).

  Args:
    array: NumPy array, memory map, or a (nested) list of numbers; the first
      dimension counts the rows. NaN is not looked for.
    where: the words that open an error, for example "fit: x".
    dims: ((name, size), ...) of one row, without the batch.
    dtype: what `read` returns. Integers, booleans and wider or narrower
      floats are cast batch by batch to a float dtype. Floats are taken for
      an integer dtype when every one of them is a whole number (Keras would
      drop the fraction); to see that, the array is read through once, in
      small pieces, so give integers where that is too slow.

  Raises:
    DataError: it is not an array of numbers, has no rows, or its shape or
      dtype does not fit.

  Example:
    >>> source = ArraySource([[0, 1], [2, 3], [4, 5]], "fit: x",
    ...                      [("pixels", 2)], "float32")
    >>> source.read(slice(1, 3), [(1, 2)])
    array([[3.],
           [5.]], dtype=float32)
  """

  def __init__(self, array, where, dims, dtype):
    self._dims = tuple((name, size) for name, size in dims)
    self._dtype = np.dtype(dtype)
    self._array = as_array(array, where)
    self._where = where
    self._check_shape()
    self._check_dtype()

  @property
  def num_rows(self):
    return self._array.shape[0]

  @property
  def dims(self):
    """((name, size), ...) of one row."""
    return self._dims

  @property
  def dtype(self):
    return self._dtype

  def read(self, rows, box):
    """Returns a new array with the wanted part, cast to the dtype.

    Args:
      rows: a slice with step 1, or an integer array of row numbers.
      box: ((begin, end), ...), one per entry of `dims`.

    Returns: array [number of rows, end - begin, ...].
    """
    columns = tuple(slice(begin, end) for begin, end in box)
    # A trailing size of 1 that only one side has costs nothing to reshape.
    given_columns = columns[:self._array.ndim - 1]
    part = np.asarray(self._array[(rows,) + given_columns])
    shape = part.shape[:1] + tuple(end - begin for begin, end in box)
    # A view of a memory map would be read later, by whoever uses it.
    return _cast(part.reshape(shape), self._dtype,
                 copy=isinstance(rows, slice))

  def _check_shape(self):
    expected = tuple(size for _, size in self._dims)
    given = self._array.shape[1:]
    if given in (expected, expected + (1,)) or given + (1,) == expected:
      return
    wanted = ", ".join(
        ["rows"] + ["%s=%d" % (name, size) for name, size in self._dims])
    raise DataError(
        "%s: an array of shape %s given; accepted is (%s). %s"
        % (self._where, self._array.shape, wanted,
           _shape_advice(given, expected)))

  def _check_dtype(self):
    given = self._array.dtype
    if given.kind in "iuf" and self._dtype.kind in "iu":
      if given.kind == "f":
        self._check_whole()
      return
    if given.kind == "b" or np.can_cast(given, self._dtype, "same_kind"):
      return
    raise DataError(
        "%s: an array of dtype %s given; accepted is %s, or what casts to it "
        "without loss of meaning. Convert it with .astype(%r)."
        % (self._where, given, self._dtype, str(self._dtype)))

  def _check_whole(self):
    row_values = max(1, math.prod(self._array.shape[1:]))
    step = max(1, SCAN_VALUES // row_values)
    for begin in range(0, self.num_rows, step):
      part = np.asarray(self._array[begin:begin + step])
      bad = ~np.isfinite(part) | (np.floor(part) != part)
      if bad.any():
        position = np.argwhere(bad)[0]
        raise DataError(
            "%s: dtype %s given, with the value %s in row %d; accepted are "
            "whole numbers, since the model reads %s. Round the array, or "
            "give it as integers."
            % (self._where, self._array.dtype, part[tuple(position)],
               begin + position[0], self._dtype))


class OnesSource:
  """A source of `num_rows` ones: the weights of rows that have none."""

  dims = ()
  dtype = np.dtype("float32")

  def __init__(self, num_rows):
    self._num_rows = num_rows

  @property
  def num_rows(self):
    return self._num_rows

  def read(self, rows, box=()):
    """Returns float32 ones, one for each row; see `ArraySource.read`."""
    del box  # a weight has no dimension beyond the row
    if isinstance(rows, slice):
      return np.ones(rows.stop - rows.start, np.float32)
    return np.ones(len(rows), np.float32)


def as_array(value, where):
  """Returns `value` as an array of numbers; arrays are returned as they are.

  Args:
    value: array, memory map, list, or anything `numpy.asarray` can read.
    where: the words that open an error.

  Raises:
    DataError: it cannot be read, holds no numbers, or has no rows.
  """
  if value is None:
    raise DataError(
        "%s: None given; accepted is an array, a memory map or a list of "
        "numbers. Pass the data." % where)
  try:
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
  except (TypeError, ValueError) as error:
    raise DataError(
        "%s: %s given, which cannot be made an array (%s); accepted is an "
        "array or a list whose rows are equally long. Pad or cut the rows."
        % (where, type(value).__name__, error)) from error
  if not _is_number_type(array.dtype):
    raise DataError(
        "%s: %s with dtype %s given; accepted is an array of numbers. "
        "Convert it, for example with numpy.asarray(data, 'float32')."
        % (where, type(value).__name__, array.dtype))
  if np.ma.is_masked(array):
    raise DataError(
        "%s: an array with masked values given; accepted is one without. "
        "Fill them with .filled(), and give sample_weight 0 to rows that "
        "must not count." % where)
  if array.ndim == 0:
    raise DataError(
        "%s: the single number %s given; accepted is an array whose first "
        "dimension counts the rows. Put it in a list." % (where, array))
  if array.shape[0] == 0:
    raise DataError(
        "%s: an array of shape %s given, which has no rows; accepted is at "
        "least 1. Check how the data was read or cut." % (where, array.shape))
  return array


def check_row_counts(where, **sources):
  """Returns the number of rows that all the sources have.

  Args:
    where: the words that open an error, for example "fit".
    **sources: name -> source or array, or None for one that is not given.

  Raises:
    DataError: they differ.

  Example:
    >>> check_row_counts("fit", x=OnesSource(5), y=OnesSource(5))
    5
  """
  counts = {
      name: source.num_rows if hasattr(source, "num_rows") else len(source)
      for name, source in sources.items() if source is not None}
  if len(set(counts.values())) > 1:
    raise DataError(
        "%s: %s given; accepted are arrays with one number of rows. Cut the "
        "longer ones to %d rows."
        % (where, ", ".join("%s with %d rows" % item
                            for item in counts.items()),
           min(counts.values())))
  return next(iter(counts.values()))


def cut_validation(arrays, fraction, where="fit"):
  """Cuts the last rows off for validation, before any shuffle.

  Args:
    arrays: sequence of arrays with equally many rows; None stays None.
    fraction: share of the rows to cut off, between 0 and 1.
    where: the words that open an error.

  Returns: (training arrays, validation arrays), two tuples of views.

  Raises:
    ArgumentError: the fraction leaves one side without rows.

  Example:
    >>> cut_validation([np.arange(5), None], 0.4)
    ((array([0, 1, 2]), None), (array([3, 4]), None))
  """
  arrays = tuple(
      None if array is None else as_array(array, where) for array in arrays)
  num_rows = next(len(array) for array in arrays if array is not None)
  try:
    in_range = 0 < fraction < 1
  except TypeError:
    in_range = False
  cut = math.floor(num_rows * (1 - fraction)) if in_range else 0
  if not 0 < cut < num_rows:
    raise ArgumentError(
        "%s: validation_split=%r with %d rows given; accepted is a number "
        "between 0 and 1 that leaves at least one row on each side. Change "
        "it, or give validation_data." % (where, fraction, num_rows))
  return tuple(
      tuple(None if array is None else array[rows] for array in arrays)
      for rows in (slice(None, cut), slice(cut, None)))


def _is_number_type(dtype):
  if dtype.kind == "V":
    # bfloat16 and its like are numbers of a kind NumPy does not know.
    return dtype.names is None and np.can_cast(dtype, np.float64)
  return dtype.kind in "biufc"


def _shape_advice(given, expected):
  if math.prod(given) == math.prod(expected):
    return "Reshape it to (-1, %s)." % ", ".join(
        str(size) for size in expected)
  return "Change the array, or the dims of the model's Input or last layer."


def _cast(part, dtype, copy):
  """Returns `part` in `dtype`; a copy even if it has that dtype already."""
  if dtype.kind in "iu" and part.dtype.kind in "iuf":
    if part.dtype.kind == "f":
      bound = 2.0 ** 62
      part = np.clip(part.astype(np.float64), -bound, bound).astype(np.int64)
    if not np.can_cast(part.dtype, dtype):
      # A number the narrower type cannot hold would wrap round to another
      # legal one; clipped, it stays out of range, where it is noticed.
      wide, narrow = np.iinfo(part.dtype), np.iinfo(dtype)
      part = np.clip(part, max(wide.min, narrow.min),
                     min(wide.max, narrow.max))
  return part.astype(dtype, copy=copy)
