"""reshape and rename at every pair of layouts."""

import itertools

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import DimensionError
from meshkeras.ops.reshape import plan_moves
from meshkeras.upstream import mtf, tf
from tests.helpers import check_layouts, run_on_mesh

RANDOM = np.random.RandomState(0)


def numbers(*shape):
  return RANDOM.standard_normal(shape).astype(np.float32)


# (old dims, new dims): layouts of at most two dims, on axes a and b.
CASES = [
    ([("batch", 4), ("rows", 4), ("cols", 8)],
     [("batch", 4), ("pixels", 32)]),
    ([("rows", 4), ("cols", 4), ("ch", 2)], [("pixels", 32)]),
    ([("rows", 4), ("cols", 6)], [("x", 8), ("y", 3)]),
    ([("pixels", 24)], [("rows", 4), ("cols", 6)]),
    ([("one", 1), ("rows", 4), ("cols", 6)], [("x", 4), ("uno", 1),
                                              ("y", 6)]),
    ([("rows", 4), ("cols", 4)], [("x", 4), ("y", 4)]),
    ([("rows", 8), ("depth", 3), ("cols", 4)], [("rows", 8), ("cols", 4),
                                                ("depth", 3)]),
]


def layouts(old, new):
  """Every layout of the names of both on two axes, at most one each."""
  names = sorted({n for n, size in old + new if size > 1})
  sizes = dict(old + new)
  found = []
  options = [(), ("a",), ("b",)]
  for choice in itertools.product(options, repeat=len(names)):
    rules = [(n, c[0]) for n, c in zip(names, choice) if c]
    fits = all(sizes[n] % 2 == 0 for n, _ in rules)
    for dims in (old, new):
      used = [axis for n, axis in rules if n in dict(dims)]
      fits = fits and len(used) == len(set(used))
    # A layout and the one with a and b exchanged are one but for the order.
    if fits and "b" not in [axis for _, axis in rules][:1]:
      found.append(("a:2,b:2", ",".join("%s:%s" % rule for rule in rules)))
  return found


@pytest.mark.parametrize("old, new", CASES)
def test_reshape_at_every_layout_equals_numpy(old, new):
  x = numbers(*[size for _, size in old])
  check_layouts(
      lambda mesh, x: ops.reshape(x, new),
      lambda x: tf.reshape(x, [size for _, size in new]),
      [(x, " ".join(name for name, _ in old))], layouts(old, new))


def test_reshape_over_four_processors():
  x = numbers(4, 4, 8)
  new = [("batch", 4), ("pixels", 32)]
  check_layouts(
      lambda mesh, x: ops.reshape(x, new), lambda x: tf.reshape(x, [4, 32]),
      [(x, "batch rows cols")],
      [("a:4", layout) for layout in (
          "rows:a", "cols:a", "pixels:a", "cols:a,pixels:a",
          "rows:a,pixels:a")])


def test_reshape_of_an_unreduced_sum_stays_one_or_becomes_a_scatter():
  x = numbers(6, 4, 8)

  def build(mesh, x):
    return ops.reshape(mtf.reduce_sum(x, reduced_dim=x.shape.dims[0]),
                       [("pixels", 32)])

  def fn(x):
    return tf.reshape(tf.reduce_sum(x, 0), [32])

  results = check_layouts(
      build, fn, [(x, "parts rows cols")],
      [("a:2,b:2", layout) for layout in (
          "parts:a", "parts:a,rows:b,pixels:b", "parts:a,pixels:a",
          "parts:a,cols:b", "parts:a,cols:b,pixels:a")])
  # Only the export, which is not counted, reduces the first two.
  assert results[0].collectives == results[1].collectives == []


def test_reshape_moves_no_more_than_it_must():
  x = numbers(4, 4, 8)
  shape = [("batch", 4), ("pixels", 32)]
  for layout, wanted in (
      ("rows:a,pixels:a", []), ("pixels:a", ["allconcat"]),
      ("rows:a", ["allconcat"]), ("cols:a,pixels:a", ["alltoall"] * 2),
      ("batch:a,rows:b,pixels:b", [])):
    result = run_on_mesh(lambda mesh, x: ops.reshape(x, shape),
                         [(x, "batch rows cols")], "a:2,b:2", layout)
    assert [kind for kind, _ in result.collectives] == wanted, layout


def test_reshape_of_bool_and_integers():
  for array in (numbers(4, 6) > 0, np.arange(24).reshape(4, 6)):
    result = run_on_mesh(lambda mesh, x: ops.reshape(x, [("y", 24)]),
                         [(array, "rows cols")], "a:2", "cols:a,y:a")
    np.testing.assert_array_equal(result.outputs[0], array.reshape(-1))


def test_rename_at_layouts():
  x = numbers(4, 8)
  check_layouts(
      lambda mesh, x: ops.rename(x, "hidden", "hidden_in"), tf.identity,
      [(x, "batch hidden")],
      [("a:2,b:2", layout) for layout in (
          "", "hidden:a", "hidden_in:a", "hidden:a,hidden_in:a",
          "hidden:a,hidden_in:b", "batch:b,hidden:a", "batch:a,hidden_in:b",
          "hidden:b,hidden_in:a")])


def test_reshape_errors():
  x = numbers(4, 8)
  with pytest.raises(DimensionError, match="32 elements.*has 30"):
    run_on_mesh(lambda mesh, x: ops.reshape(x, [("y", 30)]),
                [(x, "batch hidden")])
  with pytest.raises(DimensionError, match="'hidden' to 'batch'"):
    run_on_mesh(lambda mesh, x: ops.rename(x, "hidden", "batch"),
                [(x, "batch hidden")])
  with pytest.raises(DimensionError, match="did you mean 'hidden'"):
    run_on_mesh(lambda mesh, x: ops.rename(x, "hiden", "other"),
                [(x, "batch hidden")])


def test_plan_cuts_before_it_gathers():
  # b leaves; a is cut out first, so that less is gathered.
  moves, after = plan_moves([(4, 1), (6, None)], [(4, None), (6, 0)], [2, 2])
  assert [(m.mesh_axis, m.split_axis, m.concat_axis) for m in moves] == [
      (0, 1, None), (1, None, 0)]
  assert after == []
