"""moments and index, reduced dims split or not."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.upstream import tf
from tests.helpers import check_layouts, layouts_of, run_on_mesh

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal([4, 6, 8]).astype(np.float32) * 2 + 5
DIMS = "batch length hidden"
LAYOUTS = layouts_of(DIMS, [2])
MASK = np.array([1, 1, 0, 1], np.float32)


def weighted(x, weights, axes):
  weights = tf.stop_gradient(weights * tf.ones_like(x))
  count = tf.reduce_sum(weights, axes, keepdims=True)
  mean = tf.reduce_sum(weights * x, axes, keepdims=True) / count
  variance = tf.reduce_sum(
      weights * tf.square(x - mean), axes, keepdims=True) / count
  return tf.squeeze(mean, axes), tf.squeeze(variance, axes)


@pytest.mark.parametrize("dims, axes", [
    (["hidden"], [2]), (["batch", "length"], [0, 1]), (["length"], [1]),
    (["batch", "length", "hidden"], [0, 1, 2])])
def test_moments_equal_tensorflow(dims, axes):
  check_layouts(lambda mesh, x: ops.moments(x, dims),
                lambda x: weighted(x, tf.ones([]), axes), [(X, DIMS)],
                LAYOUTS + [("a:4", "batch:a"), ("a:4", "hidden:a")])


def test_moments_leave_masked_rows_out():
  x = X.copy()
  x[2] = 1e6
  results = [
      run_on_mesh(lambda mesh, x, m: ops.moments(x, ["batch", "length"], m),
                  [(x, DIMS), (MASK, "batch")], mesh, layout)
      for mesh, layout in LAYOUTS]
  real = x[[0, 1, 3]]
  for result in results:
    mean, variance = result.outputs
    np.testing.assert_allclose(mean, real.mean((0, 1)), 1e-5)
    np.testing.assert_allclose(variance, real.var((0, 1)), 1e-5)
    np.testing.assert_array_equal(result.gradients[0][2], 0)
    assert result.gradients[1] is None
    dmean, dvariance = result.grad_ys
    wanted = (dmean + 2 * (real - mean) * dvariance) / 18
    np.testing.assert_allclose(result.gradients[0][[0, 1, 3]], wanted, 1e-4,
                               1e-6)


def test_moments_of_weights_with_other_dims():
  weights = RANDOM.uniform(size=[8, 4]).astype(np.float32)
  for dims, axes in ((["batch"], 0), (["hidden"], 2),
                     (["batch", "length"], (0, 1))):
    full = np.broadcast_to(weights.T[:, None, :], X.shape)
    mean = (full * X).sum(axes) / full.sum(axes)
    for mesh, layout in LAYOUTS[:5]:
      result = run_on_mesh(
          lambda mesh, x, w, dims=dims: ops.moments(x, dims, w),
          [(X, DIMS), (weights, "hidden batch")], mesh, layout,
          gradients=False)
      np.testing.assert_allclose(result.outputs[0], mean, 1e-5)


def test_moments_of_no_rows_are_zero():
  for layout in ("batch:a", "hidden:a"):
    result = run_on_mesh(
        lambda mesh, x, m: ops.moments(x, ["batch", "length"], m),
        [(X, DIMS), (0 * MASK, "batch")], "a:2", layout)
    for array in result.outputs + result.gradients[:1]:
      np.testing.assert_array_equal(array, 0)


def test_variance_keeps_its_digits_far_from_zero():
  x = (1e4 + RANDOM.standard_normal([4096, 2])).astype(np.float32)
  wanted = x.astype(np.float64).var(0)
  for mesh, layout in (("", ""), ("a:4", "batch:a")):
    result = run_on_mesh(lambda mesh, x: ops.moments(x, ["batch"]),
                         [(x, "batch hidden")], mesh, layout)
    # Sums of squares would leave no digit: 1e8 in float32 is +-8.
    np.testing.assert_allclose(result.outputs[1], wanted, 1e-3)


def test_moments_of_half_precision_are_float32():
  x = X.astype(np.float16)
  for mesh, layout in (("", ""), ("a:2", "batch:a")):
    result = run_on_mesh(lambda mesh, x: ops.moments(x, ["batch"]),
                         [(x, DIMS)], mesh, layout)
    assert [y.dtype for y in result.outputs] == [np.float32, np.float32]
    assert result.gradients[0].dtype == np.float16
    np.testing.assert_allclose(
        result.outputs[0], x.astype(np.float32).mean(0), 1e-5)


def test_moments_and_their_gradient_communicate_once_per_axis():
  def build(mesh, x):
    mean, variance = ops.moments(x, ["batch", "length"])
    return ops.elementwise(
        lambda x, m, v: (x - m) / tf.sqrt(v + 1e-3), [x, mean, variance])

  inputs = [(X, DIMS)]
  layouts = [("a:2", "batch:a"), ("a:2,b:2", "batch:a,length:b"),
             ("a:2", "hidden:a")]
  results = check_layouts(
      build, lambda x: (x - weighted(x, tf.ones([]), [0, 1])[0]) / tf.sqrt(
          weighted(x, tf.ones([]), [0, 1])[1] + 1e-3), inputs, layouts,
      1e-4, 1e-4)
  assert results[0].collectives == [("allconcat", ("a",)), ("SUM", ("a",))]
  assert results[1].collectives == [
      ("allconcat", ("a",)), ("allconcat", ("b",)), ("SUM", ("a", "b"))]
  assert results[2].collectives == []


def test_index_is_the_global_position():
  for mesh, layout in (("", ""), ("a:4", "rows:a")):
    for dtype in ("int32", "int64", "float32", "bfloat16"):
      result = run_on_mesh(
          lambda mesh, dtype=dtype: ops.index(mesh, ("rows", 8), dtype), [],
          mesh, layout)
      np.testing.assert_array_equal(result.outputs[0], np.arange(8))
      assert result.outputs[0].dtype == tf.as_dtype(dtype).as_numpy_dtype


def test_moments_errors():
  with pytest.raises(DimensionError, match="did you mean 'hidden'"):
    run_on_mesh(lambda mesh, x: ops.moments(x, ["hiden"]), [(X, DIMS)])
  with pytest.raises(DimensionError, match="named once"):
    run_on_mesh(lambda mesh, x: ops.moments(x, ["batch", "batch"]),
                [(X, DIMS)])
  with pytest.raises(DimensionError, match=r"lacks \[rows=4\]"):
    run_on_mesh(lambda mesh, x, m: ops.moments(x, ["batch"], m),
                [(X, DIMS), (MASK, "rows")])
  with pytest.raises(ArgumentError, match="type int32 given"):
    run_on_mesh(lambda mesh, x: ops.moments(x, ["batch"]),
                [(X.astype(np.int32), DIMS)])
