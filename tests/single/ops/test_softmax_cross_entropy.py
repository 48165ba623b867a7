"""softmax, log_softmax and the cross entropies, classes split or not."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.upstream import tf
from tests.helpers import check_layouts, layouts_of, run_on_mesh

RANDOM = np.random.RandomState(0)
BFLOAT16 = tf.bfloat16.as_numpy_dtype
LOGITS = RANDOM.standard_normal([4, 8]).astype(np.float32) * 3
LARGE = np.array([[1e4, -1e4, 0, 1e4 - 1, 3, 0, 0, 9999.5],
                  [-1e4, -1e4, -1e4, -1e4 + 2, -1e4, -1e4, -1e4, -1e4],
                  [2e4, 0, 0, 0, 0, 0, 0, -2e4],
                  [0, 0, 0, 0, 0, 0, 0, 0]], np.float32)
LABELS = np.array([0, 3, 7, 5], np.int32)
ONE_HOT = np.eye(8, dtype=np.float32)[LABELS]
NAMES = "batch classes"
LAYOUTS = layouts_of(NAMES, [2]) + [("a:4", "classes:a")]


def sparse(mesh, logits, labels):
  return ops.sparse_softmax_cross_entropy(logits, labels, "classes")


def dense(mesh, logits, labels):
  return ops.softmax_cross_entropy(logits, labels, "classes")


def tf_sparse(logits, labels):
  return tf.nn.sparse_softmax_cross_entropy_with_logits(
      logits=logits, labels=labels)


def tf_dense(logits, labels):
  return tf.nn.softmax_cross_entropy_with_logits_v2(
      logits=logits, labels=labels)


@pytest.mark.parametrize("logits", [LOGITS, LARGE])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sparse_cross_entropy_equals_tensorflow(logits, dtype):
  check_layouts(sparse, tf_sparse,
                [(logits, NAMES), (LABELS.astype(dtype), "batch")], LAYOUTS)


@pytest.mark.parametrize("logits", [LOGITS, LARGE])
def test_cross_entropy_equals_tensorflow(logits):
  probabilities = RANDOM.dirichlet(np.ones(8), 4).astype(np.float32)
  for labels in (ONE_HOT, probabilities, 0 * ONE_HOT):
    check_layouts(dense, tf_dense, [(logits, NAMES), (labels, NAMES)],
                  LAYOUTS)


def test_cross_entropy_of_more_dims_and_another_order():
  logits = RANDOM.standard_normal([4, 8, 2]).astype(np.float32)
  labels = RANDOM.randint(0, 8, [4, 2]).astype(np.int32)
  layouts = [("", ""), ("a:2,b:2", "batch:a,classes:b"),
             ("a:2,b:2", "classes:a,length:b")]
  check_layouts(
      sparse, lambda x, n: tf_sparse(tf.transpose(x, [0, 2, 1]), n),
      [(logits, "batch classes length"), (labels, "batch length")], layouts)
  check_layouts(
      sparse,
      lambda x, n: tf_sparse(tf.transpose(x, [0, 2, 1]), tf.transpose(n)),
      [(logits, "batch classes length"), (labels.T.copy(), "length batch")],
      layouts)
  weights = RANDOM.dirichlet(np.ones(8), [2, 4]).astype(np.float32)
  check_layouts(
      dense, lambda x, w: tf_dense(
          tf.transpose(x, [0, 2, 1]), tf.transpose(w, [1, 0, 2])),
      [(logits, "batch classes length"),
       (weights, "length batch classes")], layouts)


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_cross_entropy_of_half_precision_is_computed_in_float32(dtype):
  logits = LOGITS.astype(dtype)
  layouts = [LAYOUTS[0], LAYOUTS[2]]
  check_layouts(
      sparse, lambda x, n: tf_sparse(tf.cast(x, tf.float32), n),
      [(logits, NAMES), (LABELS, "batch")], layouts, 1e-2, 1e-3)
  check_layouts(
      dense, lambda x, y: tf_dense(*(tf.cast(t, tf.float32)
                                     for t in (x, y))),
      [(logits, NAMES), (ONE_HOT.astype(dtype), NAMES)], layouts, 1e-2, 1e-3)
  wanted = run_on_mesh(sparse, [(logits.astype(np.float32), NAMES),
                                (LABELS, "batch")]).outputs[0]
  for mesh, layout in layouts:
    found = run_on_mesh(sparse, [(logits, NAMES), (LABELS, "batch")], mesh,
                        layout).outputs[0]
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


def test_cross_entropy_of_integer_labels():
  result = run_on_mesh(dense, [(LOGITS, NAMES),
                               (ONE_HOT.astype(np.int32), NAMES)],
                       "a:2", "classes:a")
  wanted = run_on_mesh(dense, [(LOGITS, NAMES), (ONE_HOT, NAMES)])
  np.testing.assert_allclose(result.outputs[0], wanted.outputs[0], 1e-5)
  assert result.gradients[1] is None


def test_cross_entropy_and_accuracy_use_two_collectives():
  def with_accuracy(mesh, logits, labels):
    loss = sparse(mesh, logits, labels)
    return loss, ops.max_with_index(logits, "classes")[1]

  inputs = [(LOGITS, NAMES), (LABELS, "batch")]
  wanted = [("MAX", ("a",)), ("SUM", ("a",))]
  result = run_on_mesh(with_accuracy, inputs, "a:2,b:2",
                       "classes:a,batch:b")
  assert result.collectives == wanted
  result = run_on_mesh(dense, [(LOGITS, NAMES), (ONE_HOT, NAMES)], "a:4",
                       "classes:a")
  assert result.collectives == wanted
  result = run_on_mesh(with_accuracy, inputs, "a:2", "batch:a")
  assert result.collectives == []


def test_label_of_another_processor_counts_nothing_here():
  # Every class of the second half is on the second processor.
  logits = np.array([[5.0, 1.0, 2.0, 3.0]], np.float32)
  for label in range(4):
    result = run_on_mesh(
        sparse, [(logits, NAMES), (np.array([label], np.int32), "batch")],
        "a:2", "classes:a")
    wanted = np.log(np.exp(logits).sum()) - logits[0, label]
    np.testing.assert_allclose(result.outputs[0], [wanted], 1e-5)


@pytest.mark.parametrize("ours, theirs", [
    (ops.softmax, tf.nn.softmax), (ops.log_softmax, tf.nn.log_softmax)])
def test_softmax_equals_tensorflow(ours, theirs):
  for logits in (LOGITS, LARGE):
    check_layouts(lambda mesh, x: ours(x, "classes"), theirs,
                  [(logits, NAMES)], LAYOUTS)
  check_layouts(
      lambda mesh, x: ours(x, "classes"), lambda x: theirs(x, axis=0),
      [(LOGITS.T.copy(), "classes batch")], LAYOUTS[2:4])
  half = LOGITS.astype(np.float16)
  check_layouts(lambda mesh, x: ours(x, "classes"), theirs, [(half, NAMES)],
                [LAYOUTS[0], LAYOUTS[2]], 1e-2, 1e-2)


def test_cross_entropy_errors():
  with pytest.raises(DimensionError, match="did you mean 'classes'"):
    run_on_mesh(lambda mesh, x, n: ops.sparse_softmax_cross_entropy(
        x, n, "clases"), [(LOGITS, NAMES), (LABELS, "batch")])
  with pytest.raises(DimensionError, match=r"labels \[rows=4\].*\[batch=4\]"):
    run_on_mesh(sparse, [(LOGITS, NAMES), (LABELS, "rows")])
  with pytest.raises(DimensionError, match=r"\[batch=4, classes=8\] accept"):
    run_on_mesh(dense, [(LOGITS, NAMES), (ONE_HOT, "batch other")])
  with pytest.raises(ArgumentError, match="labels of type float32"):
    run_on_mesh(sparse, [(LOGITS, NAMES), (LABELS.astype(np.float32),
                                           "batch")])
  with pytest.raises(ArgumentError, match="logits of type int32"):
    run_on_mesh(dense, [(LOGITS.astype(np.int32), NAMES), (ONE_HOT, NAMES)])
