"""random_uniform and dropout_mask: equal at every layout."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import ArgumentError
from meshkeras.store import counter_random
from tests.helpers import MeshCase, layouts_of, run_cases, run_on_mesh

SHAPE = [("batch", 4), ("rows", 8), ("hidden", 8)]


def test_random_uniform_is_equal_bit_for_bit_at_every_layout():
  layouts = layouts_of("batch rows hidden")
  results = run_cases([
      MeshCase(lambda mesh: ops.random_uniform(mesh, SHAPE, "drop"), (),
               mesh, layout, step=3) for mesh, layout in layouts])
  wanted = counter_random.numpy_step_uniform(
      counter_random.make_key(0, "drop"), 3, [4, 8, 8],
      [(0, 4), (0, 8), (0, 8)])
  for result in results:
    np.testing.assert_array_equal(result.outputs[0], wanted)
  assert wanted.min() >= 0 and wanted.max() < 1
  assert abs(wanted.mean() - 0.5) < 0.08


def test_random_uniform_changes_with_step_and_name():
  values = [
      run_on_mesh(lambda mesh, name=name: ops.random_uniform(
          mesh, SHAPE, name), [], step=step).outputs[0]
      for name, step in (("x", 0), ("x", 1), ("y", 0), ("x", 0))]
  assert (values[0] != values[1]).mean() > 0.99
  assert (values[0] != values[2]).mean() > 0.99
  np.testing.assert_array_equal(values[0], values[3])


def test_dropout_mask_has_the_rate_and_keeps_the_mean():
  shape = [("batch", 64), ("hidden", 256)]
  masks = [
      run_on_mesh(lambda mesh: ops.dropout_mask(mesh, shape, 0.25, "d"), [],
                  mesh, layout).outputs[0]
      for mesh, layout in (("", ""), ("a:2,b:2", "batch:a,hidden:b"))]
  np.testing.assert_array_equal(masks[0], masks[1])
  kept = masks[0] != 0
  np.testing.assert_allclose(masks[0][kept], 1 / 0.75, 1e-6)
  assert abs(kept.mean() - 0.75) < 0.01


def test_dropout_mask_of_rate_zero_is_one_and_of_bad_rate_raises():
  mask = run_on_mesh(
      lambda mesh: ops.dropout_mask(mesh, SHAPE, 0, "d", "float16"), [])
  np.testing.assert_array_equal(mask.outputs[0], np.ones([4, 8, 8]))
  assert mask.outputs[0].dtype == np.float16
  for rate in (1, -0.1, 1.5):
    with pytest.raises(ArgumentError, match="rate %s given" % rate):
      run_on_mesh(lambda mesh, rate=rate: ops.dropout_mask(
          mesh, SHAPE, rate, "d"), [])
