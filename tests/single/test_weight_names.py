"""Names, dims and types of the weights of reference models.

Checkpoints and `get_weights` depend on them, and layouts on the dims.
"""

import runpy

from absl import flags

import meshkeras as mk
from meshkeras import layers
from tests.single import source
from tests.single.goldens import check_golden


def convolutions_of_the_example():
  """The model of examples/mnist.py, whose flags are not kept."""
  before = set(flags.FLAGS)
  script = runpy.run_path(str(source.ROOT / "examples" / "mnist.py"))
  for name in set(flags.FLAGS) - before:
    delattr(flags.FLAGS, name)
  return script["make_model"](8, 8)


def words():
  return mk.Sequential([
      mk.Input((12,), dims=("length",), dtype="int32"),
      layers.Embedding(1000, 16, dim="depth", vocabulary_dim="vocabulary"),
      layers.LayerNormalization(),
      layers.Dense(16, dim="depth", activation="gelu"),
      layers.LayerNormalization(name="last"),
      layers.Dense(5)])


def normalized_images():
  return mk.Sequential([
      mk.Input((8, 8, 3), dims=("rows", "cols", "colours")),
      layers.Conv2D(4, (3, 2), use_bias=False),
      layers.BatchNormalization(),
      layers.Activation("relu"),
      layers.Conv2D(4, 1, dim="conv2d"),
      layers.BatchNormalization(center=False, trainable=False),
      layers.GlobalAveragePooling2D(),
      layers.Dense(2, dim="classes")])


class Block(layers.Layer):
  """A layer made of layers, and a weight of its own."""

  def __init__(self, **options):
    super().__init__(**options)
    self.inner = [layers.Dense(6, dim="inner"), layers.Dense(4, dim="outer")]

  def build(self, input_shape):
    self.gate = self.add_weight("gate", input_shape.dims[-1:], "ones")

  def call(self, x, training=False):
    x = x * self.gate.read()
    for layer in self.inner:
      x = layer(x)
    return x


def layers_in_layers():
  return mk.Sequential([
      mk.Input((4,), dims=("outer",)), Block(), Block(name="second")])


def test_weight_names_are_those_of_the_golden_file():
  lines = []
  for make in (convolutions_of_the_example, words, normalized_images,
               layers_in_layers):
    model = make().build()
    trained = model.trainable_names
    lines += ["# " + make.__name__] + [
        "%s  [%s]  %s%s" % (
            weight.name,
            ", ".join("%s=%d" % (d.name, d.size) for d in weight.dims),
            weight.dtype.name, "" if weight.name in trained else "  fixed")
        for weight in model.weights] + [""]
  check_golden("weight_names.txt", lines[:-1],
               "tests/single/test_weight_names.py")
