"""Optimizers against Keras over several steps, at every layout."""

import keras
import numpy as np
import pytest

from meshkeras import optimizers
from meshkeras.errors import ArgumentError
from meshkeras.layers import Weight, initializers
from meshkeras.mesh import Layout, Mesh
from meshkeras.store import SimulatedMeshImpl, VariableStore
from meshkeras.upstream import mtf, tf

RANDOM = np.random.RandomState(0)
STEPS = 5
START = RANDOM.standard_normal([4, 8]).astype(np.float32)
GRADIENTS = RANDOM.standard_normal([STEPS, 4, 8]).astype(np.float32)
GRADIENTS[:, 0] = 0
LAYOUTS = ["", "in:a", "out:b", "in:b,out:a"]

CASES = {
    "sgd": ("SGD", {"learning_rate": 0.1}),
    "sgd by default": ("SGD", {}),
    "momentum": ("SGD", {"learning_rate": 0.1, "momentum": 0.9}),
    "nesterov": ("SGD", {"learning_rate": 0.1, "momentum": 0.8,
                         "nesterov": True}),
    "adam": ("Adam", {"learning_rate": 0.1}),
    "adam by default": ("Adam", {}),
    "adam with arguments": ("Adam", {"learning_rate": 0.05, "beta_1": 0.7,
                                     "beta_2": 0.95, "epsilon": 1e-3}),
    "adamw": ("AdamW", {"learning_rate": 0.1}),
    "adamw with decay": ("AdamW", {"learning_rate": 0.1,
                                   "weight_decay": 0.3}),
    "adamw without decay": ("AdamW", {"learning_rate": 0.1,
                                      "weight_decay": 0.0}),
}


class _Trainer:
  """A weight, its slots and a step, as a model makes them."""

  def __init__(self, optimizer, session, layout, name="it/kernel"):
    self.optimizer, self.session = optimizer, session
    mesh = Mesh("a:2,b:2", simulate=True)
    self.store = VariableStore(
        mesh, Layout(layout), range(4), session.graph, session, seed=0)
    impl = SimulatedMeshImpl(mesh, Layout(layout), store=self.store,
                             step=tf.constant(0, tf.int64))
    graph = mtf.Graph()
    mtf_mesh = mtf.Mesh(graph, "mesh")
    weight = Weight(name, (("in", 4), ("out", 8)), "float32",
                    lambda key, sizes, box, dtype: START[
                        tuple(slice(*ends) for ends in box)])
    with self.store.creating_for_mesh_tensorflow():
      slots = {
          slot: Weight("slots/" + slot, weight.dims, weight.dtype,
                       initializer, trainable=False).read(mtf_mesh)
          for slot, initializer in optimizer.slots(weight).items()}
      self.gradient = tf.placeholder(tf.float32, [4, 8])
      self.scalars = {
          key: tf.placeholder(tf.float32, [])
          for key in optimizer.hyperparameters(0)}
      operations = optimizer.update(
          weight.read(mtf_mesh), slots,
          mtf.import_tf_tensor(mtf_mesh, self.gradient, weight.shape),
          {key: mtf.import_tf_tensor(mtf_mesh, value, mtf.Shape([]))
           for key, value in self.scalars.items()})
    lowering = mtf.Lowering(graph, {mtf_mesh: impl}, autostack=False)
    self.step_ops = [lowering.operations[op] for op in operations]
    self.store.initialize()
    self.name = name

  def step(self, gradient):
    found = self.optimizer.hyperparameters(self.optimizer.iterations)
    feeds = {self.scalars[key]: value for key, value in found.items()}
    self.session.run(self.step_ops, {self.gradient: gradient, **feeds})
    self.optimizer.iterations += 1
    return self.store.gather(self.name)


def _train(optimizer, layout, gradients=GRADIENTS, name="it/kernel"):
  with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
    trainer = _Trainer(optimizer, session, layout, name)
    return [trainer.step(gradient) for gradient in gradients]


def _train_keras(optimizer, gradients=GRADIENTS):
  variable = tf.Variable(START, use_resource=True)
  if hasattr(keras, "Variable"):
    variable = keras.Variable(START)
  values = []
  for gradient in gradients:
    optimizer.apply_gradients([(tf.constant(gradient), variable)])
    values.append(variable.numpy())
  return values


@pytest.mark.parametrize("case", sorted(CASES))
def test_optimizer_equals_keras_at_every_layout(case):
  name, config = CASES[case]
  wanted = _train_keras(getattr(keras.optimizers, name)(**config))
  whole = _train(getattr(optimizers, name)(**config), "")
  for step in range(STEPS):
    # TensorFlow's kernel takes 1 - beta_2 in float32, 1e-5 off, Keras in
    # float64: hence no closer.
    np.testing.assert_allclose(
        whole[step], wanted[step], rtol=2e-5, atol=1e-5, err_msg=str(step))
  for layout in LAYOUTS[1:]:
    np.testing.assert_array_equal(
        _train(getattr(optimizers, name)(**config), layout), whole, layout)


def test_adam_of_many_steps_equals_keras():
  gradients = np.random.RandomState(1).standard_normal(
      [200, 4, 8]).astype(np.float32)
  wanted = _train_keras(keras.optimizers.Adam(0.01), gradients)
  found = _train(optimizers.Adam(0.01), "", gradients)
  np.testing.assert_allclose(found[-1], wanted[-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_decay_comes_before_the_step(layout):
  optimizer = optimizers.AdamW(0.5, weight_decay=0.4)
  found = _train(optimizer, layout, np.zeros([2, 4, 8], np.float32))
  np.testing.assert_allclose(found[1], START * 0.8 * 0.8, rtol=1e-6)


def test_weights_may_be_excluded_from_decay():
  zero = np.zeros([1, 4, 8], np.float32)
  for name, factor in (("it/bias", 1.0), ("it/kernel", 0.8)):
    optimizer = optimizers.AdamW(0.5, weight_decay=0.4)
    optimizer.exclude_from_weight_decay(["bias", "gamma"])
    np.testing.assert_allclose(
        _train(optimizer, "in:a", zero, name)[0], START * factor, rtol=1e-6)


def test_learning_rate_may_change_between_steps():
  optimizer = optimizers.SGD(0.1)
  with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
    trainer = _Trainer(optimizer, session, "out:a")
    ones = np.ones([4, 8], np.float32)
    first = trainer.step(ones)
    optimizer.learning_rate = 0.01
    second = trainer.step(ones)
    optimizer.learning_rate = np.float32(0)
    third = trainer.step(ones)
  np.testing.assert_allclose(first, START - 0.1, rtol=1e-5)
  np.testing.assert_allclose(second, START - 0.11, rtol=1e-5)
  np.testing.assert_array_equal(second, third)


class _Halving:
  """A schedule with a config, as Keras's have."""

  def __init__(self, start):
    self.start = start

  def __call__(self, iteration):
    return self.start * 0.5 ** iteration

  def get_config(self):
    return {"start": self.start}


def test_schedule_gives_the_rate_of_each_step():
  optimizer = optimizers.SGD(_Halving(0.8))
  found = _train(optimizer, "", np.ones([3, 4, 8], np.float32))
  np.testing.assert_allclose(found[2], START - 0.8 - 0.4 - 0.2, rtol=1e-5,
                             atol=1e-6)
  assert optimizer.iterations == 3 and optimizer.learning_rate == 0.1
  assert optimizer.get_config()["learning_rate"] == {
      "class_name": "_Halving", "config": {"start": 0.8}}
  with pytest.raises(ArgumentError, match="schedule of type function"):
    optimizers.SGD(lambda iteration: 0.1).get_config()


def test_hyperparameters_are_of_the_host():
  found = optimizers.Adam(0.25).hyperparameters(1)
  assert {key: value.dtype for key, value in found.items()} == {
      "learning_rate": np.float32, "beta_1_power": np.float32,
      "beta_2_power": np.float32}
  np.testing.assert_allclose(
      [found[key] for key in sorted(found)], [0.81, 0.998001, 0.25],
      rtol=1e-6)


def test_slots_are_zero_at_first():
  weight = Weight("it/kernel", (("in", 2),), "float32", None)
  assert optimizers.SGD().slots(weight) == {}
  assert list(optimizers.SGD(momentum=0.5).slots(weight)) == ["momentum"]
  slots = optimizers.AdamW().slots(weight)
  assert list(slots) == ["momentum", "velocity"]
  assert all(type(slot) is initializers.Zeros for slot in slots.values())


@pytest.mark.parametrize("identifier,cls", [
    ("sgd", optimizers.SGD), ("Adam", optimizers.Adam),
    ("adamw", optimizers.AdamW),
    (optimizers.SGD(0.5, 0.9, True), optimizers.SGD),
    ({"class_name": "AdamW", "config": {"weight_decay": 0.1}},
     optimizers.AdamW)])
def test_get_finds_an_optimizer(identifier, cls):
  optimizer = optimizers.get(identifier)
  assert type(optimizer) is cls
  again = cls.from_config(optimizer.get_config())
  assert again.get_config() == optimizer.get_config()


@pytest.mark.parametrize("make,text", [
    (lambda: optimizers.get("adm"), "optimizer 'adm' is not known; did you"),
    (lambda: optimizers.get(None), "optimizer=None given"),
    (lambda: optimizers.SGD(-1), "learning_rate=-1 given"),
    (lambda: optimizers.SGD("fast"), "learning_rate='fast'"),
    (lambda: optimizers.SGD(0.1, momentum=2), "momentum=2 given"),
    (lambda: optimizers.Adam(beta1=0.5), "'beta1'.*'beta_1'"),
    (lambda: optimizers.Adam(beta_2=1.5), "beta_2=1.5 given"),
    (lambda: optimizers.AdamW(weight_decay=-1), "weight_decay=-1 given"),
    (lambda: optimizers.SGD(clipnorm=1.0), "keyword 'clipnorm'")])
def test_wrong_optimizer_says_what_is_accepted(make, text):
  with pytest.raises(ArgumentError, match=text):
    make()
