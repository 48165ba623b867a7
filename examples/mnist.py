"""Digits, by two convolutions and two hidden layers, on any mesh.

  python examples/mnist.py
  horovodrun -np 4 python examples/mnist.py \\
      --mesh_shape=data:2,model:2 --layout=batch:data,hidden1:model
  horovodrun -np 4 python examples/mnist.py \\
      --mesh_shape=tall:2,wide:2 --layout=rows:tall,cols:wide

The last one splits each image in four blocks. The numbers are the same on
any mesh and with any layout; with tanh they stay the same to six digits for
all epochs. (With relu each step is the same up to rounding too, but after
some hundred steps roundings have grown, and two runs are two equally good
models: docs/equality.md has the measurement.)

Names a layout can split: batch, rows, cols, filters1, filters2, pixels,
hidden1, hidden2 and classes, where an even share is possible: 10 classes go
over 2 processors, but not over 4.

The data are scikit-learn's 1,797 images of 8 x 8 pixels, which need no
download. The full set of 70,000 images of 28 x 28 is read from a file with
Keras's four arrays by --data=mnist.npz.
"""

import numpy as np
from absl import app, flags
from sklearn.datasets import load_digits

import meshkeras as mk
from meshkeras import layers

FLAGS = flags.FLAGS
flags.DEFINE_string("mesh_shape", None, "axes and sizes: data:2,model:2")
flags.DEFINE_string("layout", None, "dims on axes: batch:data,hidden1:model")
flags.DEFINE_bool("simulate", False, "run the whole mesh in one process")
flags.DEFINE_string("data", None, "a file like Keras's mnist.npz")
flags.DEFINE_integer("batch_size", 32, "examples per step, all processes")
flags.DEFINE_integer("epochs", 16, "times each example is trained on")
flags.DEFINE_integer("seed", 0, "of weights, order and held-out part")


def read_digits(seed):
  """Returns scikit-learn's digits; a fifth of them is held out."""
  digits = load_digits()
  images = digits.images / 16                           # [1797, 8, 8]
  order = np.random.RandomState(seed).permutation(len(images))
  images, labels = images[order], digits.target[order]
  cut = len(images) * 4 // 5
  return images[:cut], labels[:cut], images[cut:], labels[cut:]


def read_mnist(path):
  """Returns the full set as Keras stores it."""
  with np.load(path) as file:
    return (file["x_train"] / 255.0, file["y_train"],   # [60000, 28, 28]
            file["x_test"] / 255.0, file["y_test"])     # [10000, 28, 28]


def make_model(num_rows, num_cols):
  return mk.Sequential([
      mk.Input((num_rows, num_cols, 1), dims=("rows", "cols", "gray")),
      layers.Conv2D(16, 3, padding="same", activation="tanh",
                    dim="filters1"),       # [batch, rows, cols, filters1]
      layers.Conv2D(32, 3, padding="same", activation="tanh",
                    dim="filters2"),       # [batch, rows, cols, filters2]
      layers.Flatten(dim="pixels"),        # [batch, pixels]
      layers.Dense(128, activation="tanh", dim="hidden1"),
      layers.Dense(128, activation="tanh", dim="hidden2"),
      layers.Dense(10, dim="classes"),     # [batch, classes]: logits
  ])


def main(argv):
  del argv
  x, y, x_test, y_test = (
      read_mnist(FLAGS.data) if FLAGS.data else read_digits(FLAGS.seed))
  mesh = FLAGS.mesh_shape
  if FLAGS.simulate:
    mesh = mk.Mesh(mesh, simulate=True)

  mk.set_random_seed(FLAGS.seed)
  model = make_model(*x.shape[1:])
  model.compile(
      optimizer=mk.optimizers.Adam(1e-3),
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      metrics=["accuracy"],
      mesh=mesh,
      layout=FLAGS.layout)
  model.summary()
  model.fit(x, y, batch_size=FLAGS.batch_size, epochs=FLAGS.epochs,
            validation_data=(x_test, y_test))
  _, accuracy = model.evaluate(x_test, y_test, verbose=0)
  mk.announce("held-out accuracy: %.4f" % accuracy)


if __name__ == "__main__":
  app.run(main)
