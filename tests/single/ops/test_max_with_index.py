"""max_with_index: values, ties, order of bits, one collective."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.ops.argmax import pack, unpack
from meshkeras.upstream import mtf, tf
from tests.helpers import MeshCase, layouts_of, run_cases, run_on_mesh

RANDOM = np.random.RandomState(0)
BFLOAT16 = tf.bfloat16.as_numpy_dtype


def build(mesh, x):
  return ops.max_with_index(x, "classes")


def check(x, layouts, names="batch classes", axis=1):
  for (_, layout), result in zip(layouts, run_cases(
      [MeshCase(build, ((x, names),), mesh, layout, gradients=False)
       for mesh, layout in layouts])):
    maximum, index = result.outputs
    np.testing.assert_array_equal(maximum, x.max(axis), err_msg=layout)
    np.testing.assert_array_equal(index, x.argmax(axis), err_msg=layout)
    assert maximum.dtype == x.dtype and index.dtype == np.int32
    wanted = [("MAX", ("a",))]
    if x.dtype == np.float64:
      wanted.append(("MIN", ("a",)))
    assert result.collectives == (wanted if "classes:a" in layout else []), (
        layout)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, BFLOAT16])
def test_max_with_index_of_random_values(dtype):
  layouts = [pair for pair in layouts_of("batch classes")
             if "classes:b" not in pair[1]]
  check(RANDOM.standard_normal([8, 16]).astype(dtype), layouts)
  check(-np.abs(RANDOM.standard_normal([8, 16])).astype(dtype), layouts)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_max_with_index_takes_the_first_of_equal_values(dtype):
  x = RANDOM.randint(-2, 3, [64, 8]).astype(dtype)
  x[0], x[1] = 0.0, -np.inf
  x[2] = [-0.0, 0.0] * 4
  x[3] = [0.0, -0.0] * 4
  x[4] = np.inf
  # TensorFlow takes smaller numbers than 1e-38 for 0.
  x[5] = [1e-37, 0, -1e-37, 1e-37, 0, 0, 0, 0]
  x[6] = [-1e4, -2e38, -1e-37, -1.0, -1e4, -2e38, -1e-37, -1.0]
  check(x, [("", ""), ("a:2", "classes:a"), ("a:4", "classes:a"),
            ("a:8", "classes:a")])


def test_max_with_index_of_another_order_and_more_dims():
  check(RANDOM.standard_normal([8, 2, 4]).astype(np.float32),
        [("", ""), ("a:4", "classes:a"), ("a:2,b:2", "classes:a,length:b")],
        "classes batch length", 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_max_with_index_survives_nan(dtype):
  x = RANDOM.standard_normal([4, 8]).astype(dtype)
  x[0, 5], x[1], x[2, 0] = np.nan, np.nan, -np.nan
  for mesh, layout in (("", ""), ("a:2", "classes:a"), ("a:4", "classes:a")):
    maximum, index = run_on_mesh(
        build, [(x, "batch classes")], mesh, layout,
        gradients=False).outputs
    assert maximum[3] == x[3].max() and index[3] == x[3].argmax()
    assert ((index >= 0) & (index < 8)).all()


def test_packed_keys_keep_value_order_and_both_parts():
  values = np.concatenate([
      RANDOM.standard_normal(500) * 10.0 ** RANDOM.uniform(-44, 37, 500),
      [0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -1e-45]])
  values = np.sort(np.unique(values.astype(np.float32)))
  indices = RANDOM.randint(0, 2 ** 31 - 1, len(values)).astype(np.int32)
  indices[0], indices[1] = 0, 2 ** 31 - 1
  with tf.Graph().as_default(), tf.Session() as session:
    keys = pack(tf.constant(values), tf.constant(indices))
    back, index = unpack(keys, tf.float32)
    keys, back, index = session.run([keys, back, index])
  assert (np.diff(keys) > 0).all()
  np.testing.assert_array_equal(back, values)
  np.testing.assert_array_equal(index, indices)


def test_max_with_index_is_made_once_per_graph():
  def both(mesh, x):
    first = ops.max_with_index(x, "classes")
    second = ops.max_with_index(x, mtf.Dimension("classes", 8))
    assert first[0] is second[0] and first[1] is second[1]
    return second

  x = RANDOM.standard_normal([4, 8]).astype(np.float32)
  result = run_on_mesh(both, [(x, "batch classes")], "a:2", "classes:a",
                       gradients=False)
  assert result.collectives == [("MAX", ("a",))]


def test_max_with_index_passes_no_gradient():
  x = RANDOM.standard_normal([4, 8]).astype(np.float32)
  result = run_on_mesh(build, [(x, "batch classes")], "a:2", "classes:a")
  assert result.gradients == [None]


def test_max_with_index_errors():
  x = np.zeros([4, 8], np.float32)
  with pytest.raises(DimensionError, match="did you mean 'classes'"):
    run_on_mesh(lambda mesh, x: ops.max_with_index(x, "class"),
                [(x, "batch classes")])
  with pytest.raises(ArgumentError, match="type int32 given"):
    run_on_mesh(build, [(x.astype(np.int32), "batch classes")])
