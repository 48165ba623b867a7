"""A contestant of bench.py: meshkeras, with any mesh and layout.

  bench_meshkeras.py <port> <mlp or cnn> <mesh> <layout>
"""

import sys

import bench_service

import meshkeras as mk
from meshkeras import layers


def make_model(name):
  hidden = {
      "mlp": [layers.Dense(4096, activation="relu", dim="hidden1"),
              layers.Dense(4096, activation="relu", dim="hidden2")],
      "cnn": [layers.Conv2D(32, 3, padding="same", activation="relu",
                            dim="filters1"),
              layers.MaxPooling2D(2),
              layers.Conv2D(64, 3, padding="same", activation="relu",
                            dim="filters2"),
              layers.MaxPooling2D(2),
              layers.Flatten(dim="pixels"),
              layers.Dense(128, activation="relu", dim="hidden1")],
  }[name]
  dims = {"mlp": ("inputs",), "cnn": ("rows", "cols", "gray")}[name]
  return mk.Sequential(
      [mk.Input(bench_service.SHAPES[name], dims=dims)] + hidden
      + [layers.Dense(bench_service.NUM_CLASSES, dim="classes")])


def main(port, name, mesh, layout):
  model = make_model(name)
  model.compile(
      optimizer=mk.optimizers.Adam(1e-3),
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      mesh=mesh, layout=layout)

  def run_steps(num_steps):
    x, y = bench_service.make_data(
        name, num_steps * bench_service.BATCH_SIZE)
    history = model.fit(x, y, batch_size=bench_service.BATCH_SIZE, epochs=1,
                        verbose=0)
    return history.history["loss"][-1]

  bench_service.serve(port, run_steps)


if __name__ == "__main__":
  main(*sys.argv[1:])
