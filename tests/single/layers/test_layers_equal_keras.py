"""Each layer against the Keras layer of the same name."""

import keras
import numpy as np
import pytest

from meshkeras import layers
from meshkeras.layers import activations
from meshkeras.upstream import tf
from tests.single.layers.running import run_layer

RANDOM = np.random.RandomState(1)
VECTORS = (RANDOM.standard_normal([4, 6]).astype(np.float32), "batch in")
SEQUENCES = (RANDOM.standard_normal([4, 3, 6]).astype(np.float32),
             "batch words in")
IMAGES = (RANDOM.standard_normal([2, 8, 7, 3]).astype(np.float32),
          "batch rows cols in")
IDS = (RANDOM.randint(0, 10, [4, 5]).astype(np.int32), "batch words")

# Class name, arguments, input.
CASES = [
    ("Dense", {"units": 5}, VECTORS),
    ("Dense", {"units": 5, "activation": "gelu", "use_bias": False},
     SEQUENCES),
    ("Dense", {"units": 4, "activation": "softmax"}, SEQUENCES),
    ("Conv2D", {"filters": 4, "kernel_size": 3}, IMAGES),
    ("Conv2D", {"filters": 4, "kernel_size": (3, 2), "strides": 2,
                "padding": "same", "activation": "relu"}, IMAGES),
    ("Conv2D", {"filters": 2, "kernel_size": 4, "strides": (3, 1),
                "padding": "valid", "use_bias": False}, IMAGES),
    ("MaxPooling2D", {}, IMAGES),
    ("MaxPooling2D", {"pool_size": 3, "strides": 2, "padding": "same"},
     IMAGES),
    ("AveragePooling2D", {"pool_size": (2, 3)}, IMAGES),
    ("AveragePooling2D", {"pool_size": 3, "strides": 2, "padding": "same"},
     IMAGES),
    ("GlobalAveragePooling2D", {}, IMAGES),
    ("GlobalAveragePooling2D", {"keepdims": True}, IMAGES),
    ("Flatten", {}, IMAGES),
    ("Flatten", {}, VECTORS),
    ("Activation", {"activation": "softmax"}, SEQUENCES),
    ("Embedding", {"input_dim": 10, "output_dim": 3}, IDS),
    ("LayerNormalization", {}, SEQUENCES),
    ("LayerNormalization", {"axis": [1, 2], "epsilon": 0.1}, SEQUENCES),
    ("LayerNormalization", {"center": False}, VECTORS),
    ("LayerNormalization", {"scale": False}, VECTORS),
    ("BatchNormalization", {}, VECTORS),
    ("BatchNormalization", {"momentum": 0.7, "epsilon": 0.01}, IMAGES),
    ("BatchNormalization", {"axis": 1, "scale": False}, IMAGES),
    ("BatchNormalization", {"center": False}, SEQUENCES),
]


# Activations that not every version of Keras has.
BEYOND_KERAS_2 = {
    "leaky_relu": lambda x: tf.nn.leaky_relu(x, alpha=0.2),
    "log_softmax": lambda x: tf.nn.log_softmax(x),
    "silu": lambda x: x * tf.sigmoid(x)}


def _keras_result(name, config, x, training, weights, dy):
  """Returns (output, dx, {weight name: gradient}, {name: updated value})."""
  if name == "BatchNormalization" and keras.__version__.startswith("2."):
    # Keras 2's fused kernel keeps another moving variance than Keras 3.
    config = dict(config, fused=False)
  layer = getattr(keras.layers, name)(**config)
  layer.build(x.shape)
  for variable in layer.weights:
    variable.assign(weights[_last(variable.name)])
  kwargs = {"training": training} if name == "BatchNormalization" else {}
  x = tf.constant(x)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = layer(x, **kwargs)
    total = tf.reduce_sum(y * dy(y.shape))
  trained = {_last(v.name): tape.gradient(
      total, v.value if hasattr(v.value, "dtype") else v)
             for v in layer.trainable_variables}
  dx = tape.gradient(total, x) if x.dtype.is_floating else None
  return (y.numpy(), None if dx is None else dx.numpy(),
          {n: tf.convert_to_tensor(g).numpy() for n, g in trained.items()},
          {_last(v.name): v.numpy() for v in layer.weights})


def _last(name):
  return name.split("/")[-1].split(":")[0]


def _dy(shape):
  return np.random.RandomState(5).standard_normal(
      [int(size) for size in shape]).astype(np.float32)


@pytest.mark.parametrize(
    "name,config,data,training",
    [case + (True,) for case in CASES]
    + [case + (False,) for case in CASES if case[0] == "BatchNormalization"])
def test_layer_equals_keras(name, config, data, training):
  x, dims = data
  random = np.random.RandomState(2)
  first = run_layer(getattr(layers, name)(name="it", **config), x, dims)
  weights = {n: random.uniform(0.5, 1.5, value.shape).astype(np.float32)
             for n, value in first.initial.items()}
  result = run_layer(getattr(layers, name)(name="it", **config), x, dims,
                     training=training, weights=weights)
  output, dx, dweights, updated = _keras_result(
      name, config, x, training,
      {_last(n): value for n, value in weights.items()}, _dy)
  close = dict(rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(result.output, output, **close)
  if dx is not None:
    np.testing.assert_allclose(result.dx, dx, **close)
  assert {_last(n) for n in result.dweights} == set(dweights)
  for full_name, value in result.dweights.items():
    np.testing.assert_allclose(
        value, dweights[_last(full_name)], err_msg=full_name, **close)
  for full_name, value in result.updated.items():
    np.testing.assert_allclose(
        value, updated[_last(full_name)], err_msg=full_name, **close)


@pytest.mark.parametrize("name", sorted(activations._KNOWN))
def test_activation_equals_keras(name):
  x = np.concatenate([
      np.linspace(-8, 8, 19), [-1e4, 0.0, 1e4]]).astype(np.float32)[None]
  if name in ("exponential", "gelu"):
    x = x[:, :19]
  layer = layers.Activation(name)
  result = run_layer(layer, x, "batch x")
  function = BEYOND_KERAS_2.get(name) or keras.activations.get(name)
  given = tf.constant(x)
  with tf.GradientTape() as tape:
    tape.watch(given)
    y = function(given)
    total = tf.reduce_sum(y * _dy(y.shape))
  np.testing.assert_allclose(result.output, y.numpy(), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(
      result.dx, tape.gradient(total, given).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function,expected", [
    (lambda x: activations.leaky_relu(x, negative_slope=0.5),
     lambda x: np.where(x > 0, x, 0.5 * x)),
    (lambda x: activations.elu(x, alpha=2.0),
     lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0)))),
    (lambda x: activations.gelu(x, approximate=True),
     lambda x: 0.5 * x * (1 + np.tanh(
         np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))))])
def test_activation_with_arguments(function, expected):
  x = np.linspace(-3, 3, 12, dtype=np.float32)[None]
  result = run_layer(layers.Activation(function), x, "batch x", "a:2", "x:a")
  np.testing.assert_allclose(result.output, expected(x), rtol=1e-5, atol=1e-6)
