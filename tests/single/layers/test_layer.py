"""The base class: names, building once, configs, errors."""

import json

import numpy as np
import pytest

from meshkeras import layers
from meshkeras.errors import (
  ArgumentError,
  DimensionError,
  InternalError,
  OrderError,
)
from meshkeras.layers import context
from meshkeras.layers.configured import accepted_keywords
from meshkeras.layers.layer import snake_case
from meshkeras.upstream import mtf, tf
from tests.single.layers.running import run_layer

VECTORS = (np.ones([4, 6], np.float32), "batch in")
IMAGES = (np.ones([2, 8, 7, 3], np.float32), "batch rows cols in")

EVERY = [
    layers.Activation("softmax"),
    layers.AveragePooling2D(3, 2, "same"),
    layers.BatchNormalization(momentum=0.5, moving_mean_initializer="ones"),
    layers.Conv2D(4, (3, 2), 2, "same", activation="relu", dim="maps"),
    layers.Dense(5, "tanh", False, "hidden", kernel_initializer="he_normal"),
    layers.Dropout(0.25, seed=3),
    layers.Embedding(10, 4, dim="e", vocabulary_dim="v"),
    layers.Flatten(dim="flat"),
    layers.GlobalAveragePooling2D(keepdims=True),
    layers.Input((3, 4), dims=("rows", "cols"), dtype="int32", name="x"),
    layers.LayerNormalization(axis=[1, 2], center=False),
    layers.MaxPooling2D((2, 3), name="pool"),
]


def _graph_mesh():
  return mtf.Mesh(mtf.Graph(), "mesh")


def _input(mesh, sizes, names, dtype=tf.float32):
  return mtf.zeros(mesh, mtf.Shape(
      [mtf.Dimension(n, s) for n, s in zip(names.split(), sizes)]), dtype)


@pytest.mark.parametrize(
    "layer", EVERY, ids=[type(layer).__name__ for layer in EVERY])
def test_layer_is_rebuilt_from_its_config(layer):
  config = json.loads(json.dumps(layer.get_config()))
  again = type(layer).from_config(config)
  assert again.get_config() == layer.get_config()
  by_name = layers.get(
      {"class_name": type(layer).__name__, "config": config})
  assert by_name.get_config() == layer.get_config()


def test_every_layer_is_in_the_config_test():
  assert {type(layer) for layer in EVERY} == set(layers._KNOWN.values())


@pytest.mark.parametrize("class_name,name", [
    ("Dense", "dense"), ("MaxPooling2D", "max_pooling2d"),
    ("GlobalAveragePooling2D", "global_average_pooling2d"),
    ("Conv2DTranspose", "conv2d_transpose"), ("MyLSTM", "my_lstm"),
    ("LayerNormalization", "layer_normalization"), ("_Block", "block")])
def test_default_name_is_that_of_keras(class_name, name):
  assert snake_case(class_name) == name


def test_layers_are_named_per_model():
  for _ in range(2):
    model = [layers.Dense(2), layers.Dropout(0.1), layers.Dense(2),
             layers.Dense(2, name="dense_1"), layers.Dense(2)]
    layers.name_layers(model)
    assert [layer.name for layer in model] == [
        "dense", "dropout", "dense_2", "dense_1", "dense_3"]
  layers.name_layers(model)
  assert model[4].name == "dense_3"


def test_two_layers_of_one_name_are_an_error():
  with pytest.raises(ArgumentError, match="two have the name 'a'"):
    layers.name_layers([layers.Dense(2, name="a"), layers.Flatten(name="a")])


@pytest.mark.parametrize("name", ["a:b", "a/b", "", 3, "1st", "a,b"])
def test_name_that_a_layout_cannot_hold_is_an_error(name):
  with pytest.raises(ArgumentError, match="accepted are letters"):
    layers.Dense(2, name=name)


def test_name_after_building_is_an_error():
  layer = layers.Dense(2, name="a")
  run_layer(layer, *VECTORS)
  with pytest.raises(OrderError, match="'b' given after its weights"):
    layer.set_name("b")


@pytest.mark.parametrize("make,text", [
    (lambda: layers.Dense(2, unit=3), "Dense: keyword 'unit'.*'units'"),
    (lambda: layers.Conv2D(2, 3, pading="same"), "'pading'.*'padding'"),
    (lambda: layers.Dropout(0.1, nmae="x"), "'nmae'.*'name'"),
    (lambda: layers.Flatten(dims="x"), "'dims'.*'dim'"),
    (lambda: layers.BatchNormalization(centre=True), "'centre'.*'center'"),
    (lambda: layers.Input((2,), dim=("a",)), "'dim'.*'dims'"),
    (lambda: layers.MaxPooling2D(size=2), "'size'.*'pool_size'")])
def test_unknown_keyword_names_the_near_ones(make, text):
  with pytest.raises(ArgumentError, match=text):
    make()


@pytest.mark.parametrize("make,text", [
    (lambda: layers.Dense(0), "units=0 given.*at least 1"),
    (lambda: layers.Dense(2.5), "units=2.5"),
    (lambda: layers.Dense(True), "units=True"),
    (lambda: layers.Dense(2, activation="rellu"), "'rellu'.*'relu'"),
    (lambda: layers.Dense(2, activation=3), "activation=3"),
    (lambda: layers.Conv2D(2, (3, 3, 3)), r"kernel_size=\(3, 3, 3\)"),
    (lambda: layers.Conv2D(2, 3, strides=0), "strides=0"),
    (lambda: layers.Conv2D(2, 3, padding="full"), "padding='full'.*'same'"),
    (lambda: layers.MaxPooling2D(-1), "pool_size=-1"),
    (lambda: layers.Dropout(1.5), "rate=1.5 given.*from 0 to 1"),
    (lambda: layers.Dropout("x"), "rate='x'"),
    (lambda: layers.Embedding(0, 3), "input_dim=0"),
    (lambda: layers.LayerNormalization(epsilon=0), "epsilon=0 given"),
    (lambda: layers.BatchNormalization(momentum=2), "momentum=2 given"),
    (lambda: layers.Input((3, 0)), "shape=0 given"),
    (lambda: layers.Input((3,), dtype="flaot"), "dtype='flaot'"),
    (lambda: layers.get({"class_name": "Desne", "config": {}}),
     "layer 'Desne' is not known; did you mean 'Dense'")])
def test_wrong_argument_says_what_is_accepted(make, text):
  with pytest.raises(ArgumentError, match=text):
    make()


@pytest.mark.parametrize("make,text", [
    (lambda: layers.Dense(2, dim="a:b"), "dimension name 'a:b'"),
    (lambda: layers.Input((3,), dims=("a", "b")), "1 sizes and 2 names"),
    (lambda: layers.Input((3, 3), dims=("a", "a")), "names that differ"),
    (lambda: layers.Input((3,), dims=("batch",)), "none of them 'batch'")])
def test_wrong_dimension_name_says_what_is_accepted(make, text):
  with pytest.raises(DimensionError, match=text):
    make()


@pytest.mark.parametrize("make,data,text", [
    (lambda: layers.Dense(2, name="d"), ([4], "batch"),
     r"Dense 'd': input \[batch=4\] given; accepted is \[batch, ..., in\]"),
    (lambda: layers.Dense(2, dim="words"), ([4, 3, 6], "batch words in"),
     r"output dimension would be words=2 beside"),
    (lambda: layers.Dense(2, dim="batch"), ([4, 3], "batch in"),
     r"output dimension would be batch=2"),
    (lambda: layers.Conv2D(2, 3), ([4, 6], "batch in"),
     r"input \[batch=4, in=6\] given, of 2 dims; accepted are 4"),
    (lambda: layers.Conv2D(2, 9), ([2, 8, 7, 3], "batch rows cols in"),
     r"window of 9 x 9 given for an image \[rows=8, cols=7\]"),
    (lambda: layers.Conv2D(2, 3, dim="rows"), (
        [2, 8, 7, 3], "batch rows cols in"), "would be rows=2"),
    (lambda: layers.MaxPooling2D(8), ([2, 8, 7, 3], "batch rows cols in"),
     r"window of 8 x 8"),
    (lambda: layers.AveragePooling2D(), ([2, 8], "batch in"), "of 2 dims"),
    (lambda: layers.GlobalAveragePooling2D(), ([2, 8], "batch in"),
     "of 2 dims"),
    (lambda: layers.Embedding(10, 3), ([4, 6], "batch in"),
     "input of type float32 given; accepted are whole numbers"),
    (lambda: layers.Activation("softmax"), ([4], "batch"),
     r"softmax: input \[batch=4\] given"),
    (lambda: layers.LayerNormalization(axis=0), ([4, 6], "batch in"),
     "axis=0 given"),
    (lambda: layers.BatchNormalization(axis=2), ([4, 6], "batch in"),
     "axis=2 given.*from 1 to 1")])
def test_wrong_input_is_an_error_at_build(make, data, text):
  mesh = _graph_mesh()
  with context.CallContext(mesh), pytest.raises(DimensionError, match=text):
    make()(_input(mesh, *data))


def test_call_outside_a_model_is_an_error():
  with pytest.raises(OrderError, match="Put the layer into a Sequential"):
    layers.Dense(2)(_input(_graph_mesh(), [4, 3], "batch in"))
  with pytest.raises(OrderError):
    context.current()


class _Counting(layers.Layer):
  """Counts its builds and calls."""

  builds = calls = 0

  def build(self, input_shape):
    self.builds += 1
    self.shift = self.add_weight("shift", input_shape.dims[1:], "ones")

  def call(self, x):
    self.calls += 1
    return x + self.shift.read()


def test_layer_is_built_once_and_called_per_function():
  layer = _Counting(name="it")
  for calls, batch_size in enumerate((4, 8), 1):
    run_layer(layer, np.ones([batch_size, 3], np.float32), "batch x")
    assert (layer.builds, layer.calls) == (1, calls)
  mesh = _graph_mesh()
  with context.CallContext(mesh), pytest.raises(
      DimensionError, match=r"\[x=5\] given after it was built for \[x=3\]"):
    layer(_input(mesh, [4, 5], "batch x"))


def test_layer_counts_its_parameters():
  layer = layers.Dense(5, name="it")
  with pytest.raises(OrderError, match="before the layer is built"):
    layer.count_params()
  run_layer(layer, *VECTORS)
  assert layer.count_params() == 6 * 5 + 5
  assert repr(layer.weights[0]) == "Weight('it/kernel', [in=6, it=5])"
  assert layer.trainable_weights == layer.weights
  layer.trainable = False
  assert layer.trainable_weights == []
  assert layer.non_trainable_weights == layer.weights
  normalization = layers.BatchNormalization(name="it")
  run_layer(normalization, *VECTORS)
  assert [w.name for w in normalization.non_trainable_weights] == [
      "it/moving_mean", "it/moving_variance"]


class _Block(layers.Layer):
  """Layers within a layer."""

  def __init__(self, units, **options):
    super().__init__(**options)
    self.units = units
    self.inner = [layers.Dense(units, "relu", dim="hidden"),
                  layers.Dense(units, dim="out")]

  def call(self, x, training=False):
    for layer in self.inner:
      x = layer(x)
    return x


def test_sublayers_are_named_within_their_layer():
  layer = _Block(4, name="top")
  result = run_layer(layer, *VECTORS)
  assert [w.name for w in layer.weights] == [
      "top/dense/kernel", "top/dense/bias", "top/dense_1/kernel",
      "top/dense_1/bias"]
  assert set(result.dweights) == {w.name for w in layer.weights}
  assert layer.count_params() == 6 * 4 + 4 + 4 * 4 + 4
  assert layer.get_config() == {
      "units": 4, "name": "top", "trainable": True}


class _Forgetful(layers.Layer):
  """Does not keep its argument."""

  def __init__(self, units, **options):
    super().__init__(**options)


def test_config_without_an_argument_says_which():
  with pytest.raises(ArgumentError, match="argument 'units' is not kept"):
    _Forgetful(3).get_config()
  with pytest.raises(ArgumentError, match="type function cannot be written"):
    layers.Activation(lambda x: x).get_config()
  assert accepted_keywords(_Forgetful) == ("units", "name", "trainable")


class _Wrong(layers.Layer):
  """Calls Mesh TensorFlow wrongly, or returns nothing."""

  def __init__(self, kind, **options):
    super().__init__(**options)
    self.kind = kind

  def build(self, input_shape):
    if self.kind == "twice":
      self.add_weight("w", input_shape.dims[1:])
      self.add_weight("w", input_shape.dims[1:])
    if self.kind == "square":
      self.add_weight("w", input_shape.dims[1:] * 2)

  def call(self, x, training=False):
    if self.kind == "upstream":
      return mtf.reshape(x, mtf.Shape([mtf.Dimension("a", 7)]))


@pytest.mark.parametrize("layer,error,text", [
    (_Wrong("twice"), ArgumentError, "weight 'w' is made twice"),
    (_Wrong("square"), DimensionError, r"dims \[x=6, x=6\], two of one name"),
    (_Wrong("upstream", name="it"), DimensionError,
     r"_Wrong 'it': cannot be applied to an input \[batch=4, x=6\]: "),
    (_Wrong("none"), ArgumentError, "call returned a NoneType"),
    (layers.Layer(), ArgumentError, "defines no call")])
def test_wrong_layer_is_named_in_the_error(layer, error, text):
  mesh = _graph_mesh()
  with context.CallContext(mesh), pytest.raises(error, match=text):
    layer(_input(mesh, [4, 6], "batch x"))


def test_call_before_build_is_our_own_fault():
  with pytest.raises(InternalError):
    layers.Dense(2)._check_dims(_input(_graph_mesh(), [4, 3], "batch in"))


def test_embedding_checks_the_values_of_its_input():
  layer = layers.Embedding(10, 3, name="e")
  assert layer.check_input(np.array([[0, 9]])) is None
  text = layer.check_input(np.array([[0, 9], [3, 10]]))
  assert text.startswith("Embedding 'e': value 10 at row 1, 1 given")
  assert "from 0 to 9" in text
  assert "value -1" in layer.check_input(np.array([[-1]]))
  assert layers.Dense(3).check_input(np.array([[7.0]])) is None


def test_embedding_takes_small_integers():
  ids = np.array([[1, 2], [3, 4]], np.uint8)
  layer = layers.Embedding(5, 3, name="e")
  result = run_layer(layer, ids, "batch words")
  np.testing.assert_array_equal(
      result.output, result.initial["e/embeddings"][ids])


def test_input_gives_default_dims():
  given = layers.Input(8)
  assert given.shape == (8,) and given.dims == ("input_0",)
  assert layers.Input((2, 3), name="x").dims == ("x_0", "x_1")
  assert layers.Input((2,), dims="a").dims == ("a",)
  assert layers.Input(()).batched(4) == mtf.Shape([("batch", 4)])
  assert layers.Input((2,), dtype=np.uint8).dtype == "uint8"


def test_contexts_nest_and_end():
  mesh = _graph_mesh()
  with context.CallContext(mesh) as outer:
    with context.CallContext(mesh, training=True) as inner:
      assert context.current() is inner
      assert inner.unique_name("a") == "a"
      assert inner.unique_name("a") == "a_1"
    assert context.current() is outer
    assert outer.unique_name("a") == "a"
