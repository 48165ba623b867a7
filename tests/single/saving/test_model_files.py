"""model.save, load_model, save_weights, load_weights, custom objects."""

import json
import os
import warnings

import numpy as np
import pytest

import meshkeras as mk
from meshkeras import layers, saving
from meshkeras.errors import ArgumentError, CheckpointError
from meshkeras.layers import initializers
from meshkeras.saving import config, registry
from meshkeras.upstream import mtf
from tests.single.saving import small_model


class Scale(layers.Layer):
  """A user's layer with an argument and a weight."""

  def __init__(self, factor=1.0, **options):
    super().__init__(**options)
    self.factor = factor

  def build(self, input_shape):
    self.offset = self.add_weight("offset", input_shape.dims[-1:])

  def call(self, x, training=False):
    return x * self.factor + self.offset.read()


class Forgetful(layers.Layer):
  """A layer that keeps another value than it was given."""

  def __init__(self, rate, **options):
    super().__init__(**options)
    self.rate = rate * 2

  def call(self, x, training=False):
    return x


class Half(initializers.Initializer):
  def values(self, key, sizes, box):
    return 0.5


def doubled(x):
  return x + x


def squared(y_true, y_pred):
  return mtf.square(y_true - y_pred)


class Tower(mk.Model):
  def __init__(self, units, depth=1):
    super().__init__(mk.Input((8,), dims=("in",)))
    self.units, self.depth = units, depth
    self.dense = layers.Dense(units, dim="out")

  def call(self, x, training=False):
    for _ in range(self.depth):
      x = self.dense(x) if x.shape.dims[-1].name == "in" else x + x
    return x


CUSTOM = {"Scale": Scale, "doubled": doubled, "Half": Half,
          "squared": squared}


def custom_model():
  model = mk.Sequential([
      mk.Input((8,), dims=("in",)), Scale(3.0, name="doubled"),
      layers.Dense(4, dim="out", activation=doubled,
                   kernel_initializer=Half())])
  model.compile("adam", squared, [squared])
  return model


@pytest.fixture
def registered():
  """Registers for one test."""
  before = registry.registered()
  yield saving.register
  for name in set(registry.registered()) - set(before):
    del registry._registered[name]


def test_loaded_model_is_the_saved_one_at_any_mesh(tmp_path):
  path = str(tmp_path / "saved")
  model = small_model.make("d:2,m:2", "batch:d,hidden:m")
  small_model.fit(model, 2)
  model.save(path)
  variables = small_model.variables(model)
  for mesh, layout in (("", ""), ("m:4", "hidden:m")):
    loaded = mk.load_model(path, mk.Mesh(mesh, simulate=True), layout)
    small_model.assert_equal_variables(
        variables, small_model.variables(loaded))
    assert loaded.iterations == model.iterations
    assert [layer.get_config() for layer in loaded.layers] == [
        layer.get_config() for layer in model.layers]
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
  x, y = small_model.arrays()
  losses = [m.train_on_batch(x, y)[0] for m in (model, loaded) for _ in "abc"]
  np.testing.assert_allclose(losses[:3], losses[3:], rtol=1e-6)


def test_weights_alone_load_into_a_model_with_another_optimizer(tmp_path):
  model = small_model.make()
  small_model.fit(model, 1)
  model.save_weights(str(tmp_path / "weights"))
  model.save(str(tmp_path / "all"))
  for name in ("weights", "all"):
    other = small_model.make(optimizer="sgd")
    assert other.load_weights(str(tmp_path / name)) is None
    for one, two in zip(model.get_weights(), other.get_weights()):
      np.testing.assert_array_equal(one, two)
  with pytest.raises(CheckpointError, match="weights alone"):
    other.restore(str(tmp_path / "weights"))
  with pytest.raises(CheckpointError, match="no architecture"):
    mk.load_model(str(tmp_path / "weights"))


def test_other_names_and_shapes_are_refused_or_listed(tmp_path):
  small_model.make().save_weights(str(tmp_path))
  other = small_model.make(hidden=12, first="renamed")
  before = small_model.variables(other)
  with pytest.raises(CheckpointError) as caught:
    other.load_weights(str(tmp_path))
  for words in (
      "missing in the checkpoint: renamed/kernel",
      "not in the model: first/kernel",
      "last/kernel: [hidden=16, classes=4] float32 in the checkpoint, "
      "[hidden=12, classes=4] float32 in the model"):
    assert words in str(caught.value)
  small_model.assert_equal_variables(before, small_model.variables(other))
  found = other.load_weights(str(tmp_path), strict=False)
  assert found.missing == ["renamed/kernel", "renamed/bias"]
  assert found.unexpected == ["first/kernel", "first/bias"]
  assert len(found.mismatched) == 5


def test_custom_objects_are_given_or_registered(tmp_path, registered):
  path = str(tmp_path / "saved")
  model = custom_model()
  with pytest.warns(UserWarning, match="Half, Scale, doubled, squared"):
    model.save(path)
  with pytest.raises(CheckpointError, match="Half, Scale, .* not known"):
    mk.load_model(path)
  x = np.ones((4, 8), np.float32)
  loaded = mk.load_model(path, custom_objects=CUSTOM)
  np.testing.assert_array_equal(
      model.predict(x, verbose=0), loaded.predict(x, verbose=0))
  assert loaded.evaluate(x, x[:, :4], verbose=0) == (
      model.evaluate(x, x[:, :4], verbose=0))
  for thing in CUSTOM.values():
    registered(thing)
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    model.save(path)
  loaded = mk.load_model(path)
  assert loaded.layers[0].factor == 3.0
  assert loaded.layers[1].activation is doubled
  np.testing.assert_array_equal(
      model.predict(x, verbose=0), loaded.predict(x, verbose=0))


def test_subclassed_model_is_rebuilt_from_its_arguments(tmp_path, registered):
  registered(Tower)
  model = Tower(4, depth=2)
  model.compile("sgd", "mse")
  model.save(str(tmp_path))
  loaded = mk.load_model(str(tmp_path))
  assert (loaded.units, loaded.depth) == (4, 2)
  x = np.ones((3, 8), np.float32)
  np.testing.assert_array_equal(
      model.predict(x, verbose=0), loaded.predict(x, verbose=0))


def test_what_cannot_be_rebuilt_is_said_when_saving(tmp_path):
  model = mk.Sequential([
      mk.Input((8,), dims=("in",)), Forgetful(0.1, name="odd"),
      layers.Dense(4, dim="out", activation=lambda x: x, name="anonymous")])
  model.compile("sgd", "mse")
  with pytest.raises(CheckpointError) as caught:
    model.save(str(tmp_path / "saved"))
  message = str(caught.value)
  assert "Forgetful 'odd': built from rate=0.2 it has rate=0.4" in message
  assert "anonymous" in message and "save_weights" in message
  assert not (tmp_path / "saved").exists()
  with pytest.raises(CheckpointError, match="odd"):
    model.fit(np.ones((4, 8)), np.ones((4, 4)), verbose=0, callbacks=[
        mk.callbacks.ModelCheckpoint(tmp_path / "saved")])
  assert model.iterations == 0
  model.save_weights(str(tmp_path / "saved"))


class WithPart(layers.Layer):
  """A user's layer that is given another layer."""

  def __init__(self, parts, **options):
    super().__init__(**options)
    self.parts = parts

  def call(self, x, training=False):
    return self.parts[0](x)


class WithoutNames(layers.Layer):
  """A user's layer whose arguments have no names."""

  def __init__(self, *factors, **options):
    super().__init__(**options)
    self.factors = factors

  def call(self, x, training=False):
    return x * self.factors[0]


@pytest.mark.parametrize("layer, words", [
    (lambda: WithPart([layers.Activation("relu")], name="odd"),
     "WithPart 'odd': argument 'parts' holds an object of meshkeras's"),
    (lambda: WithoutNames(2.0, 3.0, name="odd"),
     "WithoutNames: the constructor takes arguments without names (*args)")])
def test_arguments_that_do_not_come_back_are_said_when_saving(
    tmp_path, layer, words):
  model = mk.Sequential([
      mk.Input((8,), dims=("in",)), layer(), layers.Dense(4, dim="out")])
  model.compile("sgd", "mse")
  with pytest.raises(CheckpointError) as caught:
    model.save(tmp_path / "saved")
  assert str(caught.value).count(words) == 1, str(caught.value)
  assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("change, words", [
    (lambda c: c.pop("seed"), "lacks seed"),
    (lambda c: c.update(training=[]), "lacks training"),
    (lambda c: c["training"].pop("learning_rate"),
     "lacks training: learning_rate"),
    (lambda c: c["model"]["compile"].pop("loss"),
     "cannot be built from what the index says of it (KeyError: 'loss')"),
    (lambda c: c["variables"][0].update(dtype=True),
     "its description of files or variables is damaged (TypeError")])
def test_index_changed_by_hand_is_told(tmp_path, change, words):
  model = small_model.make()
  model.save(tmp_path / "saved")
  index = tmp_path / "saved" / "meshkeras.json"
  content = json.loads(index.read_text())
  del content["index_crc32"]
  change(content)
  index.write_text(json.dumps(content))
  with pytest.raises(CheckpointError) as caught:
    mk.load_model(tmp_path / "saved")
  assert str(tmp_path / "saved") in str(caught.value)
  assert words in str(caught.value), str(caught.value)
  mk.latest_checkpoint(tmp_path)


def test_register_refuses_names_that_are_taken(registered):
  with pytest.raises(ArgumentError, match="'Dense'"):
    registered(type("Dense", (), {}))
  with pytest.raises(ArgumentError, match="named function"):
    registered(lambda x: x)


def test_resolve_leaves_names_alone():
  assert config.resolve(
      {"name": "doubled", "dim": "doubled", "activation": "doubled"},
      {"doubled": doubled}) == {
          "name": "doubled", "dim": "doubled", "activation": doubled}


def test_latest_checkpoint_is_the_last_complete_one(tmp_path):
  model = small_model.make()
  assert saving.latest_checkpoint(tmp_path / "nowhere") is None
  assert saving.latest_checkpoint(tmp_path) is None
  for name in ("b", "a", "c"):
    model.save_weights(str(tmp_path / name))
  assert saving.latest_checkpoint(tmp_path) == str(tmp_path / "c")
  assert saving.latest_checkpoint(tmp_path / "a") == str(tmp_path / "a")
  shard = next(n for n in os.listdir(tmp_path / "c") if n != "meshkeras.json")
  os.truncate(tmp_path / "c" / shard, 100)
  assert saving.latest_checkpoint(tmp_path) == str(tmp_path / "a")
