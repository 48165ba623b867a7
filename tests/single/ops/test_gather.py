"""gather against plain TensorFlow, the vocabulary split or not."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.upstream import tf
from tests.helpers import check_layouts, layouts_of, run_on_mesh

RANDOM = np.random.RandomState(0)
TABLE = RANDOM.standard_normal([16, 4]).astype(np.float32)
IDS = RANDOM.randint(0, 16, [4, 6]).astype(np.int32)


def dense(fn):
  """Makes TensorFlow's gradient of a gather a dense one."""
  return lambda table, ids: fn(1.0 * table, ids)


def test_gather_equals_tensorflow():
  for ids in (IDS, IDS.astype(np.int64)):
    check_layouts(
        lambda mesh, table, ids: ops.gather(table, ids, "vocab"),
        dense(tf.gather), [(TABLE, "vocab hidden"), (ids, "batch length")],
        layouts_of("batch length vocab hidden", [2]))


def test_gather_over_four_processors_and_repeated_ids():
  ids = np.array([3, 3, 15, 3, 0, 0, 15, 3], np.int32)
  check_layouts(
      lambda mesh, table, ids: ops.gather(table, ids, "vocab"),
      dense(tf.gather), [(TABLE, "vocab hidden"), (ids, "batch")],
      layouts_of("batch vocab hidden"))


def test_gather_of_a_vocabulary_in_second_place():
  check_layouts(
      lambda mesh, table, ids: ops.gather(table, ids, "vocab"),
      lambda table, ids: tf.gather(tf.transpose(table), ids),
      [(TABLE.T.copy(), "hidden vocab"), (IDS, "batch length")],
      layouts_of("batch vocab hidden", [2]))


def test_gather_with_vocabulary_and_batch_on_one_axis():
  results = check_layouts(
      lambda mesh, table, ids: ops.gather(table, ids, "vocab"),
      dense(tf.gather), [(TABLE, "vocab hidden"), (IDS, "batch length")],
      [("a:2", "batch:a,vocab:a"), ("a:2", "length:a,vocab:a"),
       ("a:4", "batch:a,vocab:a"),
       ("a:2,b:2", "batch:a,vocab:a,hidden:b"),
       ("a:2,b:2", "batch:a,length:b,vocab:a")])
  assert results[0].collectives == [
      ("allconcat", ("a",)), ("SUM", ("a",)), ("allconcat", ("a",)),
      ("allconcat", ("a",))]


def test_gather_of_infinite_rows_elsewhere_gives_no_nan():
  table = np.full([16, 4], np.inf, np.float32)
  table[8:] = 1.0
  result = run_on_mesh(
      lambda mesh, table, ids: ops.gather(table, ids, "vocab"),
      [(table, "vocab hidden"), (np.array([8, 9], np.int32), "batch")],
      "a:2", "vocab:a")
  np.testing.assert_array_equal(result.outputs[0], np.ones([2, 4]))


def test_gather_in_half_precision_adds_in_float32():
  table = np.ones([2, 4], tf.bfloat16.as_numpy_dtype)
  ids = np.zeros([1024], np.int32)
  # A sum kept in bfloat16 would lose most of 1024 small summands.
  result = run_on_mesh(
      lambda mesh, table, ids: ops.gather(table, ids, "vocab"),
      [(table, "vocab hidden"), (ids, "batch")], "a:2", "vocab:a")
  assert result.outputs[0].dtype == table.dtype
  wanted = result.grad_ys[0].astype(np.float64).sum(0)
  np.testing.assert_allclose(
      result.gradients[0][0].astype(np.float64), wanted, 0.01)


def test_gather_errors():
  def run(ids, names="batch length", vocab="vocab"):
    return run_on_mesh(
        lambda mesh, table, ids: ops.gather(table, ids, vocab),
        [(TABLE, "vocab hidden"), (ids, names)])

  with pytest.raises(ArgumentError, match="type float32 given; int32"):
    run(IDS.astype(np.float32))
  with pytest.raises(DimensionError, match=r"share \[hidden=4\]"):
    run(IDS, "hidden length")
  with pytest.raises(DimensionError, match="did you mean 'vocab'"):
    run(IDS, vocab="vocabs")
