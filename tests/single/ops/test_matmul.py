"""matmul against plain TensorFlow."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import DimensionError
from meshkeras.upstream import mtf, tf
from tests.helpers import check_layouts, layouts_of, run_on_mesh

RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal([4, 8]).astype(np.float32)
W = RANDOM.standard_normal([8, 12]).astype(np.float32)


def test_matmul_equals_tensorflow():
  check_layouts(lambda mesh, x, w: ops.matmul(x, w, "in", "out"), tf.matmul,
                [(X, "batch in"), (W, "in out")],
                layouts_of("batch in out"))


def test_matmul_by_a_transposed_kernel():
  check_layouts(
      lambda mesh, x, w: ops.matmul(x, w, ["in"], ["out"]),
      lambda x, w: tf.matmul(x, w, transpose_b=True),
      [(X, "batch in"), (W.T.copy(), "out in")], layouts_of("batch in out"))


def test_matmul_of_more_dimensions():
  x = RANDOM.standard_normal([2, 4, 2, 4]).astype(np.float32)
  w = RANDOM.standard_normal([2, 4, 2, 6]).astype(np.float32)
  check_layouts(
      lambda mesh, x, w: ops.matmul(x, w, ["i", "j"], ["k", "l"]),
      lambda x, w: tf.einsum("bsij,ijkl->bskl", x, w),
      [(x, "batch length i j"), (w, "i j k l")],
      layouts_of("batch length i j k l", [2]))


def test_matmul_out_of_order_falls_back_on_einsum():
  x = RANDOM.standard_normal([8, 4, 2]).astype(np.float32)
  check_layouts(
      lambda mesh, x, w: ops.matmul(x, w, ["in"], ["out"]),
      lambda x, w: tf.einsum("ibs,io->bso", x, w),
      [(x, "in batch length"), (W, "in out")],
      layouts_of("batch length in out", [2]))


def test_matmul_with_a_shared_dimension_is_one_product_each():
  x = RANDOM.standard_normal([4, 2, 6]).astype(np.float32)
  w = RANDOM.standard_normal([2, 6, 8]).astype(np.float32)
  check_layouts(
      lambda mesh, x, w: ops.matmul(x, w, ["in"], ["out"]),
      lambda x, w: tf.einsum("bhi,hio->bho", x, w),
      [(x, "batch heads in"), (w, "heads in out")],
      layouts_of("batch heads in out", [2]))


def test_matmul_without_batch_and_in_float64():
  x, w = X[0].astype(np.float64), W.astype(np.float64)
  check_layouts(
      lambda mesh, x, w: ops.matmul(x, w, "in", "out"),
      lambda x, w: tf.linalg.matvec(w, x, transpose_a=True),
      [(x, "in"), (w, "in out")], layouts_of("in out"), 1e-12, 1e-12)


def test_chain_reduces_each_sum_once():
  v = RANDOM.standard_normal([12, 4]).astype(np.float32)

  def build(mesh, x, w, v):
    hidden = ops.elementwise(tf.tanh, [ops.matmul(x, w, "in", "hidden")])
    return ops.matmul(hidden, v, "hidden", "out")

  def fn(x, w, v):
    return tf.matmul(tf.tanh(tf.matmul(x, w)), v)

  inputs = [(X, "batch in"), (W, "in hidden"), (v, "hidden out")]
  results = check_layouts(
      build, fn, inputs, [("a:2", "hidden:a"), ("a:2", "batch:a")])
  # The sums are left to whoever uses them: nothing here does.
  assert [r.collectives for r in results] == [[], []]


def test_second_derivative_of_matmul():
  def build(mesh, x, w):
    y = ops.matmul(x, w, "in", "out")
    return mtf.gradients([y], [x], [ops.elementwise(tf.identity, [y])])[0]

  check_layouts(
      build, lambda x, w: tf.matmul(tf.matmul(x, w), w, transpose_b=True),
      [(X, "batch in"), (W, "in out")], layouts_of("batch in out", [2]))


def test_matmul_errors():
  inputs = [(X, "batch in"), (W, "in out")]
  with pytest.raises(DimensionError, match="'inn' given.*did you mean 'in'"):
    run_on_mesh(lambda mesh, x, w: ops.matmul(x, w, "inn", "out"), inputs)
  with pytest.raises(DimensionError, match="'out' given.*batch=4"):
    run_on_mesh(lambda mesh, x, w: ops.matmul(x, w, "out", "in"), inputs)
  square = [(X, "batch in"), (W[:, :8], "in batch")]
  with pytest.raises(DimensionError, match="'batch', 'batch_in'"):
    run_on_mesh(lambda mesh, x, w: ops.matmul(x, w, "in", "batch"), square)
  with pytest.raises(DimensionError, match="w .*has .out=12."):
    run_on_mesh(lambda mesh, x, w: ops.matmul(x, w, "in", []), inputs)
  with pytest.raises(DimensionError, match="float32 and w is float64"):
    run_on_mesh(lambda mesh, x, w: ops.matmul(x, w, "in", "out"),
                [(X, "batch in"), (W.astype(np.float64), "in out")])
