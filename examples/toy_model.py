"""A stack of hidden layers that learns to give back what it is given.

  python examples/toy_model.py
  horovodrun -np 4 python examples/toy_model.py \\
      --mesh_shape=data:2,model:2 --layout=batch:data,hidden_even:model
  horovodrun -np 4 python examples/toy_model.py \\
      --mesh_shape=even:2,odd:2 --layout=hidden_even:even,hidden_odd:odd

The hidden dims take turns in two names, so that each kernel has both and a
layout may split either or both: with the last one above every kernel is
held in four blocks, one per process.
"""

import numpy as np
from absl import app, flags

import meshkeras as mk
from meshkeras import layers

FLAGS = flags.FLAGS
flags.DEFINE_string("mesh_shape", None, "axes and sizes: data:2,model:2")
flags.DEFINE_string("layout", None, "dims on axes: hidden_even:model")
flags.DEFINE_bool("simulate", False, "run the whole mesh in one process")
flags.DEFINE_integer("num_rows", 1024, "random vectors to give back")
flags.DEFINE_integer("io_size", 16, "size of a vector")
flags.DEFINE_integer("hidden_size", 64, "size of a hidden layer")
flags.DEFINE_integer("num_hidden_layers", 4, "how many of them")
flags.DEFINE_integer("batch_size", 64, "examples per step, all processes")
flags.DEFINE_integer("epochs", 20, "times each example is trained on")
flags.DEFINE_integer("seed", 0, "of the weights, the data and their order")


def make_model():
  names = ["hidden_even", "hidden_odd"]
  hidden = [
      layers.Dense(FLAGS.hidden_size, activation="tanh",
                   dim=names[number % 2])    # [batch, even or odd]
      for number in range(FLAGS.num_hidden_layers)]
  return mk.Sequential(
      [mk.Input((FLAGS.io_size,), dims=("io",))]
      + hidden
      + [layers.Dense(FLAGS.io_size, dim="io")])  # [batch, io]


def main(argv):
  del argv
  x = np.random.RandomState(FLAGS.seed).uniform(
      size=(FLAGS.num_rows, FLAGS.io_size))       # [rows, io]
  mesh = FLAGS.mesh_shape
  if FLAGS.simulate:
    mesh = mk.Mesh(mesh, simulate=True)

  mk.set_random_seed(FLAGS.seed)
  model = make_model()
  model.compile(
      optimizer=mk.optimizers.Adam(1e-3),
      loss=mk.losses.MeanSquaredError(),
      mesh=mesh,
      layout=FLAGS.layout)
  model.summary()
  before = model.evaluate(x, x, verbose=0)
  model.fit(x, x, batch_size=FLAGS.batch_size, epochs=FLAGS.epochs)
  after = model.evaluate(x, x, verbose=0)
  mk.announce(
      "mean squared error: %.6f before, %.6f after, %.0f times less"
      % (before, after, before / after))


if __name__ == "__main__":
  app.run(main)
