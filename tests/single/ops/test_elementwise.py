"""elementwise, broadcast, bias_add against plain TensorFlow."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.upstream import mtf, tf
from tests.helpers import check_layouts, layouts_of, run_on_mesh

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal([4, 8, 4]).astype(np.float32)
BIAS = RANDOM.standard_normal([4]).astype(np.float32)
ROW = RANDOM.standard_normal([4, 8]).astype(np.float32)
DIMS = "batch rows cols"


def test_elementwise_of_one_tensor_equals_tensorflow():
  for fn in (tf.nn.relu, tf.tanh, tf.nn.silu, lambda x: 2 * x):
    check_layouts(lambda mesh, x, fn=fn: ops.elementwise(fn, [x]), fn,
                  [(X, DIMS)], layouts_of(DIMS, ways=[2]))


def test_elementwise_broadcasts_by_name():
  def formula(x, bias, row):
    return tf.sigmoid(x) * bias + row / (1 + tf.square(x))

  check_layouts(
      lambda mesh, x, bias, row: ops.elementwise(formula, [x, bias, row]),
      lambda x, bias, row: formula(x, bias, row[:, :, None]),
      [(X, DIMS), (BIAS, "cols"), (ROW, "batch rows")], layouts_of(DIMS))


def test_elementwise_takes_dimensions_in_any_order():
  check_layouts(
      lambda mesh, x, y: ops.elementwise(tf.multiply, [y, x]),
      lambda x, y: y * tf.transpose(x, [2, 1, 0]),
      [(X, DIMS), (X.T.copy(), "cols rows batch")], layouts_of(DIMS, [2]))


def test_elementwise_of_one_tensor_twice_adds_both_gradients():
  def build(mesh, x):
    y = ops.elementwise(tf.sin, [x])
    # The second input depends on the first: no path may count twice.
    z = ops.elementwise(tf.multiply, [x, y])
    return ops.elementwise(tf.multiply, [z, z])

  check_layouts(build, lambda x: tf.square(x * tf.sin(x)), [(X, DIMS)],
                layouts_of(DIMS, [2]))


def test_elementwise_stop_gradient_of_its_own_input_is_respected():
  check_layouts(
      lambda mesh, x: ops.elementwise(tf.multiply, [x, mtf.stop_gradient(x)]),
      lambda x: x * tf.stop_gradient(x), [(X, DIMS)], layouts_of(DIMS, [2]))


def test_elementwise_of_an_unreduced_sum():
  check_layouts(
      lambda mesh, x: ops.elementwise(
          tf.square, [mtf.reduce_sum(x, reduced_dim=x.shape.dims[1])]),
      lambda x: tf.square(tf.reduce_sum(x, 1)), [(X, DIMS)],
      layouts_of(DIMS))


def test_elementwise_other_dtype():
  result = run_on_mesh(
      lambda mesh, x: ops.elementwise(lambda x: x > 0, [x], dtype="bool"),
      [(X, DIMS)], "a:2", "rows:a")
  np.testing.assert_array_equal(result.outputs[0], X > 0)
  assert result.gradients == [None]

  def build(mesh, x, n):
    return ops.elementwise(
        lambda x, n: x * tf.cast(n, tf.float32), [x, n])

  numbers = np.arange(4, dtype=np.int32)
  check_layouts(build, lambda x, n: x * tf.cast(n, tf.float32),
                [(X, DIMS), (numbers, "cols")], layouts_of(DIMS, [2]))


def test_elementwise_half_precisions():
  for dtype in (np.float16, tf.bfloat16.as_numpy_dtype):
    check_layouts(lambda mesh, x: ops.elementwise(tf.nn.relu, [x]),
                  tf.nn.relu, [(X.astype(dtype), DIMS)],
                  layouts_of(DIMS, [2]))


def test_elementwise_is_without_traffic():
  result = run_on_mesh(
      lambda mesh, x: ops.elementwise(tf.tanh, [x]), [(X, DIMS)],
      "a:2,b:2", "batch:a,rows:b")
  assert result.collectives == []


def test_broadcast_of_bool_and_float():
  mask = RANDOM.uniform(size=[8]) > 0.5
  shape = [("batch", 4), ("rows", 8), ("cols", 4)]
  for layout in ("batch:a,rows:b", "cols:a,batch:b"):
    result = run_on_mesh(lambda mesh, m: ops.broadcast(m, shape),
                         [(mask, "rows")], "a:2,b:2", layout)
    np.testing.assert_array_equal(
        result.outputs[0], np.broadcast_to(mask[None, :, None], [4, 8, 4]))
  check_layouts(
      lambda mesh, x: ops.broadcast(x, shape),
      lambda x: tf.broadcast_to(x, [4, 8, 4]), [(BIAS, "cols")],
      layouts_of(DIMS))


def test_bias_add_equals_tensorflow():
  check_layouts(lambda mesh, x, b: ops.bias_add(x, b), lambda x, b: x + b,
                [(X, DIMS), (BIAS, "cols")], layouts_of(DIMS))
  check_layouts(lambda mesh, x, b: ops.bias_add(x, b),
                lambda x, b: x + b[None, :, :1] * tf.ones([4, 8, 1]),
                [(X[:, :, :1], DIMS), (ROW[:1].T.copy(), "rows cols")],
                layouts_of("batch rows"))


def test_elementwise_errors_name_what_differs():
  def outer(mesh, x, y):
    return ops.elementwise(tf.add, [x, y])

  with pytest.raises(DimensionError, match="lacks depth=3"):
    run_on_mesh(outer, [(X, DIMS), (np.zeros([3], np.float32), "depth")])
  with pytest.raises(ArgumentError, match="type int given"):
    run_on_mesh(lambda mesh, x: ops.elementwise(tf.add, [x, 1]), [(X, DIMS)])
  with pytest.raises(ArgumentError, match="returned bool, declared is float"):
    run_on_mesh(lambda mesh, x: ops.elementwise(tf.is_nan, [x]), [(X, DIMS)])
  with pytest.raises(ArgumentError, match="shape .4, 8. for slices"):
    run_on_mesh(lambda mesh, x: ops.elementwise(
        lambda x: tf.reduce_sum(x, 2), [x], name="f"), [(X, DIMS)])
  with pytest.raises(DimensionError, match="lacks cols=4"):
    run_on_mesh(lambda mesh, x: ops.broadcast(x, [("batch", 4), ("rows", 8)]),
                [(X, DIMS)])


def test_second_derivative_raises():
  def build(mesh, x):
    y = ops.elementwise(tf.tanh, [x])
    return mtf.gradients([y], [x])[0]

  with pytest.raises(ArgumentError, match="first derivatives"):
    run_on_mesh(build, [(X, DIMS)])
