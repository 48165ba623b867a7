"""Initial values: the same at every layout, of the right spread."""

import math
import statistics
import tracemalloc

import numpy as np
import pytest

from meshkeras.errors import ArgumentError
from meshkeras.layers import initializers
from meshkeras.mesh import Layout, Mesh, slices
from meshkeras.store import VariableStore
from meshkeras.upstream import tf

RANDOM = ["random_uniform", "random_normal", "truncated_normal",
          "glorot_uniform", "glorot_normal", "he_uniform", "he_normal",
          "lecun_uniform", "lecun_normal"]
DIMS = (("in", 48), ("hidden", 36))
LAYOUTS = ["", "in:a", "hidden:a", "in:b", "in:a,hidden:b", "hidden:a,in:b"]


def _whole(name, sizes, key=5, dtype=np.float32):
  box = tuple((0, size) for size in sizes)
  return initializers.get(name)(key, sizes, box, dtype)


@pytest.mark.parametrize("name", RANDOM + ["zeros", "ones"])
def test_initializer_at_every_layout_is_bit_equal(name):
  mesh = Mesh("a:2,b:4", simulate=True)
  full = {}
  for layout in LAYOUTS:
    with tf.Graph().as_default() as graph, tf.Session() as session:
      store = VariableStore(
          mesh, Layout(layout), range(mesh.size), graph, session, seed=1)
      store.create("dense/kernel", DIMS, tf.float32,
                   initializers.get(name), trainable=True, role="weight")
      store.initialize()
      full[layout] = store.gather("dense/kernel")
  for layout, value in full.items():
    np.testing.assert_array_equal(
        value.view(np.uint32), full[""].view(np.uint32), layout)
  if name in RANDOM:
    assert not np.array_equal(full[""][:24], full[""][24:])


@pytest.mark.parametrize("sizes", [(5, 7), (3, 3, 4, 6), (1, 1, 40), (11,)])
@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal",
                                  "random_normal"])
def test_initializer_in_chunks_equals_whole(monkeypatch, name, sizes):
  whole = _whole(name, sizes)
  monkeypatch.setattr(initializers, "_CHUNK_SIZE", 6)
  np.testing.assert_array_equal(_whole(name, sizes), whole)


def test_chunks_cover_a_box_once_and_in_order():
  box = ((2, 7), (0, 3), (1, 6))
  seen = np.zeros((7, 3, 6), int)
  for chunk in slices.chunks(box, 7):
    assert slices.box_size(chunk) <= 7
    seen[tuple(slice(*ends) for ends in chunk)] += 1
  assert seen[2:, :, 1:].min() == seen.max() == 1
  assert seen.sum() == 5 * 3 * 5
  assert list(slices.chunks((), 7)) == [()]


@pytest.mark.parametrize("sizes,fans", [
    ((), (1, 1)), ((7,), (7, 7)), ((20, 30), (20, 30)),
    ((3, 3, 4, 6), (36, 54)), ((2, 3, 3, 4, 6), (72, 108))])
def test_fans_are_those_of_keras(sizes, fans):
  assert initializers.fans(sizes) == fans


@pytest.mark.parametrize("name,variance", [
    ("glorot_uniform", 2 / 700), ("glorot_normal", 2 / 700),
    ("he_uniform", 2 / 300), ("he_normal", 2 / 300),
    ("lecun_uniform", 1 / 300), ("lecun_normal", 1 / 300),
    ("random_uniform", 0.1 ** 2 / 12), ("random_normal", 0.05 ** 2)])
def test_initializer_has_the_mean_and_variance_of_keras(name, variance):
  values = _whole(name, (300, 400)).astype(np.float64)
  deviation = math.sqrt(variance)
  assert abs(values.mean()) < 4 * deviation / math.sqrt(values.size)
  np.testing.assert_allclose(values.std(), deviation, rtol=0.01)


def test_uniform_stays_within_its_limits():
  limit = math.sqrt(6 / 700)
  values = _whole("glorot_uniform", (300, 400))
  assert values.min() >= -limit and values.max() <= limit
  assert values.max() > 0.999 * limit
  embedding = _whole("uniform", (300, 400))
  assert -0.05 <= embedding.min() < -0.0499 < 0.0499 < embedding.max() <= 0.05


def test_truncated_normal_has_the_normal_distribution_within_two():
  values = _whole(initializers.TruncatedNormal(stddev=1.0), (400, 500))
  assert np.abs(values).max() <= 2
  normal = statistics.NormalDist()
  below = normal.cdf(-2)
  for x in (-1.5, -0.5, 0.0, 1.0, 1.9):
    expected = (normal.cdf(x) - below) / (1 - 2 * below)
    assert abs((values < x).mean() - expected) < 0.005


def test_truncated_normal_inverts_the_distribution_function(monkeypatch):
  unit = np.linspace(0, 1, 1001)[:-1]
  monkeypatch.setattr(initializers.counter_random, "numpy_uniform",
                      lambda key, sizes, box, dtype: unit)
  values = initializers._truncated_normal(0, None, None)
  normal = statistics.NormalDist()
  below = normal.cdf(-2)
  expected = [normal.inv_cdf(below + u * (1 - 2 * below)) for u in unit]
  np.testing.assert_allclose(values, expected, atol=5e-9)


@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal"])
def test_initializer_needs_little_memory_beside_its_slice(name):
  sizes = (4096, 1024)
  box = ((0, 4096), (0, 1024))
  initializer = initializers.get(name)
  tracemalloc.start()
  value = initializer(1, sizes, box)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert value.nbytes == 16 << 20
  assert peak - value.nbytes < 32 << 20


def test_seed_makes_values_independent_of_the_weight():
  first = initializers.RandomNormal(seed=3)
  box = ((0, 4), (0, 4))
  np.testing.assert_array_equal(
      first(1, (4, 4), box), first(2, (4, 4), box))
  other = initializers.RandomNormal(seed=4)(1, (4, 4), box)
  assert not np.array_equal(first(1, (4, 4), box), other)


@pytest.mark.parametrize("dtype", [
    np.float64, np.float16, np.int32, tf.bfloat16.as_numpy_dtype])
def test_initializer_gives_the_dtype_asked_for(dtype):
  value = _whole("ones", (3, 2), dtype=dtype)
  assert value.dtype == np.dtype(dtype) and (value == 1).all()
  assert _whole("he_normal", (3, 2), dtype=np.float16).dtype == np.float16


@pytest.mark.parametrize("identifier", [
    "zeros", "GlorotUniform", initializers.Constant(2.5),
    initializers.VarianceScaling(2.0, "fan_out", "uniform", seed=1),
    {"class_name": "RandomUniform", "config": {"minval": -1, "maxval": 1}}])
def test_initializer_is_rebuilt_from_its_config(identifier):
  first = initializers.get(identifier)
  again = type(first).from_config(first.get_config())
  assert again.get_config() == first.get_config()
  np.testing.assert_array_equal(_whole(first, (4, 6)), _whole(again, (4, 6)))


def test_unknown_initializer_names_the_near_ones():
  with pytest.raises(ArgumentError, match="did you mean 'glorot_uniform'"):
    initializers.get("glorot_unifrom")
  with pytest.raises(ArgumentError, match="mode='fan_up' given"):
    initializers.VarianceScaling(mode="fan_up")
  with pytest.raises(ArgumentError, match="scale=-1 given"):
    initializers.VarianceScaling(scale=-1)
  with pytest.raises(ArgumentError, match="keyword 'valu' given.*'value'"):
    initializers.Constant(valu=1)
