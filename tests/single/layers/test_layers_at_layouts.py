"""Every layer at a few layouts against one process.

The full table of layers and layouts is in tests/conformance.
"""

import numpy as np
import pytest

from meshkeras import layers
from tests.single.layers.running import check_same, run_layer

RANDOM = np.random.RandomState(0)
MESH = "a:2,b:2"
VECTORS = (RANDOM.standard_normal([4, 8]).astype(np.float32), "batch x")
IMAGES = (RANDOM.standard_normal([4, 8, 8, 4]).astype(np.float32),
          "batch rows cols x")
IDS = (RANDOM.randint(0, 8, [4, 6]).astype(np.int32), "batch words")

CASES = {
    "dense": (layers.Dense, dict(units=4, dim="y", activation="tanh"),
              VECTORS, "batch:a x:a y:a x:a,y:b batch:b,y:a"),
    "dense to its own dim": (
        layers.Dense, dict(units=8, dim="x"), VECTORS,
        "batch:a x:a x_in:a batch:a,x:b x:a,x_in:b"),
    "conv2d": (
        layers.Conv2D, dict(filters=4, kernel_size=3, padding="same",
                            strides=2, dim="y"),
        IMAGES, "batch:a rows:a rows:a,cols:b x:a y:a batch:a,rows:b"),
    "conv2d to its own dim": (
        layers.Conv2D, dict(filters=4, kernel_size=5, dim="x"), IMAGES,
        "batch:a x:b rows:a"),
    "max_pooling2d": (layers.MaxPooling2D, {}, IMAGES, "rows:a,cols:b x:a"),
    "average_pooling2d": (
        layers.AveragePooling2D, dict(pool_size=3, strides=1,
                                      padding="same"),
        IMAGES, "rows:a,cols:b x:a"),
    "global_average_pooling2d": (
        layers.GlobalAveragePooling2D, {}, IMAGES, "rows:a,cols:b x:a"),
    "flatten": (layers.Flatten, dict(dim="y"), IMAGES,
                "batch:a rows:a rows:a,cols:b x:a y:a rows:a,y:b batch:a,y:b"),
    "flatten to a dim of its input": (
        layers.Flatten, dict(dim="x"), IMAGES, "batch:a x:a rows:a,x:b"),
    "activation": (layers.Activation, dict(activation="softmax"), VECTORS,
                   "batch:a x:a batch:a,x:b"),
    "dropout": (layers.Dropout, dict(rate=0.4), IMAGES,
                "batch:a rows:a rows:a,cols:b x:a batch:b,x:a"),
    "embedding": (
        layers.Embedding, dict(input_dim=8, output_dim=4, dim="y",
                               vocabulary_dim="v"),
        IDS, "batch:a v:a y:a v:a,y:b batch:a,v:b words:a,v:b words:a,v:a"),
    "layer_normalization": (
        layers.LayerNormalization, {}, IMAGES,
        "batch:a rows:a x:a batch:a,x:b"),
    "batch_normalization": (
        layers.BatchNormalization, {}, IMAGES,
        "batch:a rows:a x:a batch:a,x:b batch:a,rows:b rows:a,cols:b"),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_layer_at_every_layout_equals_one_process(case):
  cls, config, (x, dims), layouts = CASES[case]
  mask = [1, 0, 1, 1]
  reference = run_layer(cls(name="it", **config), x, dims, row_mask=mask)
  for layout in layouts.split():
    result = run_layer(
        cls(name="it", **config), x, dims, MESH, layout, row_mask=mask)
    check_same(result, reference)


def test_dropout_masks_are_bit_equal_at_every_layout():
  x = np.ones([8, 4, 6], np.float32)

  def mask(layout="", **options):
    return run_layer(layers.Dropout(0.25, name=options.pop("name", "it")),
                     x, "batch p q", "a:2,b:2" if layout else "", layout,
                     **options).output

  whole = mask()
  for layout in ("batch:a", "p:b", "q:a", "batch:b,q:a", "p:a,q:b"):
    np.testing.assert_array_equal(mask(layout), whole)
  assert set(np.unique(whole)) == {np.float32(0), np.float32(1 / 0.75)}
  for other in (mask(step=1), mask(seed=4), mask(name="other")):
    assert not np.array_equal(other, whole)


def test_dropout_keeps_the_mean_and_drops_the_share_asked_for():
  x = np.ones([100, 1000], np.float32)
  result = run_layer(layers.Dropout(0.3), x, "batch x")
  assert abs((result.output == 0).mean() - 0.3) < 0.01
  assert abs(result.output.mean() - 1) < 0.02
  np.testing.assert_array_equal(result.dx != 0, result.output != 0)


@pytest.mark.parametrize("rate,training,expected", [
    (0.5, False, 1), (0.0, True, 1), (1.0, True, 0)])
def test_dropout_at_the_ends(rate, training, expected):
  x = np.ones([4, 6], np.float32)
  result = run_layer(
      layers.Dropout(rate), x, "batch x", training=training)
  np.testing.assert_array_equal(result.output, np.full_like(x, expected))


def test_dropout_called_twice_draws_twice():
  class Twice(layers.Layer):
    def __init__(self, **options):
      super().__init__(**options)
      self.dropout = layers.Dropout(0.5)

    def call(self, x, training=False):
      return self.dropout(x) - self.dropout(x)

  result = run_layer(Twice(), np.ones([8, 8], np.float32), "batch x")
  assert 0 < (result.output == 0).mean() < 1


def test_dropout_with_a_seed_draws_other_values():
  x = np.ones([8, 8], np.float32)
  outputs = [run_layer(layers.Dropout(0.5, seed=seed, name="it"), x,
                       "batch x").output for seed in (None, 1, 2)]
  assert not np.array_equal(outputs[0], outputs[1])
  assert not np.array_equal(outputs[1], outputs[2])


@pytest.mark.parametrize("layout", ["", "batch:a", "batch:a,x:b"])
def test_batch_statistics_leave_pad_rows_out(layout):
  x = np.random.RandomState(3).standard_normal([8, 4]).astype(np.float32)
  x[5:] = 1e6
  mask = [1] * 5 + [0] * 3
  result = run_layer(
      layers.BatchNormalization(name="it", momentum=0.75), x, "batch x",
      MESH if layout else "", layout, row_mask=mask)
  real = x[:5].astype(np.float64)
  np.testing.assert_allclose(
      result.updated["it/moving_mean"], 0.25 * real.mean(0), rtol=1e-5)
  np.testing.assert_allclose(
      result.updated["it/moving_variance"], 0.75 + 0.25 * real.var(0),
      rtol=1e-5)
  np.testing.assert_allclose(
      result.output[:5],
      (real - real.mean(0)) / np.sqrt(real.var(0) + 1e-3), rtol=1e-4,
      atol=1e-5)


def test_batch_normalization_uses_moving_statistics_when_frozen():
  x = VECTORS[0]
  layer = layers.BatchNormalization(name="it", trainable=False)
  result = run_layer(layer, x, "batch x")
  np.testing.assert_allclose(result.output, x / np.sqrt(1.001), rtol=1e-5)
  assert result.dweights == {}
  np.testing.assert_array_equal(result.updated["it/moving_mean"], np.zeros(8))


def test_integer_images_become_floats():
  x = np.arange(32, dtype=np.uint8).reshape([2, 4, 4, 1])
  result = run_layer(layers.Conv2D(1, 1, kernel_initializer="ones"), x,
                     "batch rows cols x")
  np.testing.assert_array_equal(result.output, x.astype(np.float32))


def test_weights_have_keras_names_and_sizes():
  result = run_layer(layers.Conv2D(6, (3, 2), name="c"), *IMAGES)
  assert {n: v.shape for n, v in result.initial.items()} == {
      "c/kernel": (3, 2, 4, 6), "c/bias": (6,)}
  result = run_layer(layers.BatchNormalization(name="n"), *IMAGES)
  assert sorted(result.initial) == [
      "n/beta", "n/gamma", "n/moving_mean", "n/moving_variance"]
  assert list(result.dweights) == ["n/gamma", "n/beta"]
