"""A contestant of bench.py: tf.keras, alone or with Horovod's gradient tape.

  bench_keras.py <port> <mlp or cnn> <alone or horovod>
"""

import importlib
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import bench_service
import tensorflow as tf

keras = tf.keras


def make_model(name):
  layers = keras.layers
  hidden = {
      "mlp": [layers.Dense(4096, activation="relu"),
              layers.Dense(4096, activation="relu")],
      "cnn": [layers.Conv2D(32, 3, padding="same", activation="relu"),
              layers.MaxPooling2D(2),
              layers.Conv2D(64, 3, padding="same", activation="relu"),
              layers.MaxPooling2D(2),
              layers.Flatten(),
              layers.Dense(128, activation="relu")],
  }[name]
  return keras.Sequential(
      [keras.Input(bench_service.SHAPES[name])] + hidden
      + [layers.Dense(bench_service.NUM_CLASSES)])


def alone(name):
  """tf.keras as its users run it: compile and fit."""
  model = make_model(name)
  model.compile(
      optimizer=keras.optimizers.Adam(1e-3),
      loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

  def run_steps(num_steps):
    x, y = bench_service.make_data(
        name, num_steps * bench_service.BATCH_SIZE)
    history = model.fit(x, y, batch_size=bench_service.BATCH_SIZE, epochs=1,
                        verbose=0)
    return history.history["loss"][-1]
  return run_steps


def with_horovod(name):
  """Each process trains on its share of the batch; gradients are averaged."""
  hvd = importlib.import_module("horovod.tensorflow")
  hvd.init()
  model = make_model(name)
  optimizer = keras.optimizers.Adam(1e-3)
  optimizer.build(model.trainable_variables)
  loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  # Horovod knows TensorFlow's variables, not those Keras 3 wraps them in.
  weights = [weight if isinstance(weight, tf.Variable) else weight.value
             for weight in model.trainable_variables]
  hvd.broadcast_variables(weights, root_rank=0)

  @tf.function
  def step(x, y):
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
      loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, weights)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

  share = bench_service.BATCH_SIZE // hvd.size()

  def run_steps(num_steps):
    x, y = bench_service.make_data(
        name, num_steps * bench_service.BATCH_SIZE)
    mine = slice(hvd.rank() * share * num_steps,
                 (hvd.rank() + 1) * share * num_steps)
    batches = tf.data.Dataset.from_tensor_slices((x[mine], y[mine]))
    for batch in batches.batch(share, drop_remainder=True).prefetch(2):
      loss = step(*batch)
    return loss
  return run_steps


def main(port, name, how):
  tf.config.threading.set_intra_op_parallelism_threads(
      bench_service.local_threads())
  tf.config.threading.set_inter_op_parallelism_threads(
      bench_service.local_threads())
  run_steps = {"alone": alone, "horovod": with_horovod}[how](name)
  bench_service.serve(port, run_steps)


if __name__ == "__main__":
  main(*sys.argv[1:])
