"""What arrays are accepted, and what is read of them."""

import numpy as np
import pytest

from meshkeras.data import (
  ArraySource,
  OnesSource,
  check_row_counts,
  cut_validation,
)
from meshkeras.errors import ArgumentError, DataError

IMAGE = (("rows", 4), ("cols", 6))


class WatchedArray(np.ndarray):
  """An array that remembers the indices it was read with."""

  def __new__(cls, array):
    view = np.asarray(array).view(cls)
    view.indices = []
    return view

  def __array_finalize__(self, parent):
    self.indices = []

  def __getitem__(self, index):
    self.indices.append(index)
    return np.asarray(self)[index]


def test_read_float64_gives_box_in_float32():
  array = np.arange(5 * 24, dtype=np.float64).reshape(5, 4, 6)
  source = ArraySource(array, "fit: x", IMAGE, "float32")
  part = source.read(slice(1, 3), ((0, 4), (2, 5)))
  assert part.dtype == np.float32
  np.testing.assert_array_equal(part, array[1:3, :, 2:5])
  assert source.num_rows == 5 and source.dims == IMAGE


def test_read_row_numbers_gives_those_rows_in_that_order():
  array = np.arange(5 * 24).reshape(5, 4, 6)
  source = ArraySource(array, "fit: x", IMAGE, "float32")
  part = source.read(np.array([4, 0, 0]), ((1, 2), (0, 6)))
  np.testing.assert_array_equal(part, array[[4, 0, 0], 1:2])


def test_read_of_one_box_touches_no_other_column():
  watched = WatchedArray(np.zeros((5, 4, 6), np.float32))
  source = ArraySource(watched, "fit: x", IMAGE, "float32")
  source.read(slice(1, 3), ((0, 2), (3, 6)))
  assert watched.indices == [(slice(1, 3), slice(0, 2), slice(3, 6))]


def test_read_does_not_alias_the_users_array():
  array = np.zeros((3, 2), np.float32)
  source = ArraySource(array, "fit: x", [("pixels", 2)], "float32")
  source.read(slice(0, 3), ((0, 2),))[:] = 7
  assert not array.any()


def test_memory_map_is_read_in_parts(tmp_path):
  path = tmp_path / "x.npy"
  values = np.arange(40, dtype=np.float64).reshape(10, 4)
  np.save(path, values)
  source = ArraySource(
      np.load(path, mmap_mode="r"), "fit: x", [("pixels", 4)], "float32")
  part = source.read(np.array([9, 2]), ((1, 3),))
  assert type(part) is np.ndarray
  np.testing.assert_array_equal(part, values[[9, 2], 1:3])


@pytest.mark.parametrize("given, dims, expected", [
    ((3, 1), (), (3,)),
    ((3,), (("out", 1),), (3, 1)),
    ((3, 1), (("out", 1),), (3, 1)),
    ((3, 2, 1), (("positions", 2),), (3, 2)),
    ((3, 2), (("positions", 2), ("out", 1)), (3, 2, 1)),
])
def test_last_size_of_one_is_dropped_or_added(given, dims, expected):
  array = np.arange(np.prod(given)).reshape(given)
  source = ArraySource(array, "fit: y", dims, "int32")
  box = tuple((0, size) for _, size in dims)
  for rows in (slice(0, 3), np.arange(3)):
    np.testing.assert_array_equal(
        source.read(rows, box), array.reshape(expected))


@pytest.mark.parametrize("given", [(3, 5), (3,), (3, 4, 1, 1), (3, 2, 2)])
def test_wrong_shape_names_both_shapes(given):
  with pytest.raises(DataError) as error:
    ArraySource(np.zeros(given), "fit: x", [("pixels", 4)], "float32")
  assert "fit: x: an array of shape %s" % (given,) in str(error.value)
  assert "(rows, pixels=4)" in str(error.value)


def test_wrong_shape_of_equal_size_advises_reshape():
  with pytest.raises(DataError, match=r"Reshape it to \(-1, 4, 6\)"):
    ArraySource(np.zeros((3, 24)), "fit: x", IMAGE, "float32")


def test_lists_and_booleans_are_taken():
  source = ArraySource([True, False], "fit: y", (), "float32")
  np.testing.assert_array_equal(source.read(slice(0, 2), ()), [1, 0])


@pytest.mark.parametrize("data, words", [
    (None, "None given"),
    (3.0, "single number 3.0"),
    ([], r"shape \(0,\)"),
    (np.zeros((0, 4)), r"shape \(0, 4\)"),
    ([[1, 2], [3]], "equally long"),
    (np.array(["a", "b"]), "<U1"),
    (np.array([1, None], dtype=object), "object"),
    (np.ma.masked_equal([1.0, 2.0], 2.0), "masked"),
])
def test_what_is_no_array_of_numbers_is_refused(data, words):
  with pytest.raises(DataError, match=words):
    ArraySource(data, "fit: x", (), "float32")


def test_complex_for_float_is_refused():
  with pytest.raises(DataError, match="complex128 given; accepted is float32"):
    ArraySource(np.zeros(3, complex), "fit: x", (), "float32")


def test_whole_floats_serve_an_integer_dtype():
  source = ArraySource(np.array([0.0, 9.0]), "fit: y", (), "int32")
  part = source.read(slice(0, 2), ())
  assert part.dtype == np.int32 and part.tolist() == [0, 9]


@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf])
def test_fractions_for_an_integer_dtype_are_refused(bad):
  array = np.zeros(300000, np.float32)
  array[299999] = bad
  with pytest.raises(DataError, match="the value %s in row 299999" % bad):
    ArraySource(array, "fit: y", (), "int32")


@pytest.mark.parametrize("value, dtype, expected", [
    (2 ** 32 + 1, "int32", 2 ** 31 - 1),
    (-2 ** 40, "int32", -2 ** 31),
    (-1, "uint8", 0),
    (2 ** 32 + 1, "int64", 2 ** 32 + 1),
])
def test_too_large_integers_are_clipped_not_wrapped(value, dtype, expected):
  for given in (np.array([value]), np.array([float(value)])):
    source = ArraySource(given, "fit: y", (), dtype)
    assert source.read(slice(0, 1), ()).tolist() == [expected]


def test_uint64_beyond_int64_is_clipped():
  source = ArraySource(np.array([2 ** 64 - 1], np.uint64), "x", (), "int64")
  assert source.read(slice(0, 1), ()).tolist() == [2 ** 63 - 1]


def test_row_counts_differ_names_all():
  x, y = np.zeros((10, 2)), np.zeros(8)
  with pytest.raises(DataError) as error:
    check_row_counts("fit", x=x, y=y, sample_weight=None)
  assert str(error.value) == (
      "fit: x with 10 rows, y with 8 rows given; accepted are arrays with "
      "one number of rows. Cut the longer ones to 8 rows.")


def test_row_counts_equal_returns_them():
  source = ArraySource(np.zeros((10, 2)), "x", [("a", 2)], "float32")
  assert check_row_counts("fit", x=source, y=np.zeros(10)) == 10
  assert check_row_counts("fit", x=source, y=None, w=OnesSource(10)) == 10


@pytest.mark.parametrize("num_rows, fraction, cut", [
    (10, 0.2, 8), (10, 0.25, 7), (3, 0.5, 1), (100, 0.01, 99)])
def test_validation_is_cut_from_the_end(num_rows, fraction, cut):
  x, y = np.arange(num_rows), np.arange(num_rows) * 2
  (train_x, train_y, none), (val_x, val_y, _) = cut_validation(
      (x, y, None), fraction)
  assert none is None and train_x.base is x
  np.testing.assert_array_equal(train_x, x[:cut])
  np.testing.assert_array_equal(val_x, x[cut:])
  np.testing.assert_array_equal(train_y, y[:cut])
  np.testing.assert_array_equal(val_y, y[cut:])


@pytest.mark.parametrize("num_rows, fraction", [
    (10, 0.0), (10, 1.0), (10, -0.5), (1, 0.5), (10, 0.999), (10, "a")])
def test_validation_split_that_empties_a_side_is_refused(num_rows, fraction):
  with pytest.raises(ArgumentError, match="with %d rows given" % num_rows):
    cut_validation((np.zeros(num_rows),), fraction)
