"""Trains small models with several layouts and writes what came out.

Started by equality.py on 1, 2 and 4 processes:

  equality_worker.py <file of cases> <directory for the results>
"""

import hashlib
import json
import os
import sys

import numpy as np
from sklearn.datasets import load_digits

import meshkeras as mk
from meshkeras import layers

NUM_CLASSES = 8       # divisible by 4, unlike 10
NUM_TRAIN = 300       # the fifth batch of 64 is a short one
BATCH_SIZE = 64
EPOCHS = 4            # of 5 steps


def read_data():
  """Returns (train images, train labels, test images, test labels)."""
  digits = load_digits()
  few = digits.target < NUM_CLASSES
  images, labels = digits.images[few], digits.target[few]
  return (images[:NUM_TRAIN], labels[:NUM_TRAIN],
          images[NUM_TRAIN:400], labels[NUM_TRAIN:400])


def image_model():
  return mk.Sequential([
      mk.Input((8, 8, 1), dims=("rows", "cols", "gray")),
      # The normalization takes a bias off again: its gradient would be
      # nothing but rounding, which Adam scales up to full steps.
      layers.Conv2D(8, 3, padding="same", use_bias=False, dim="filters"),
      layers.BatchNormalization(),
      layers.Activation("tanh"),
      layers.MaxPooling2D(2),
      layers.Flatten(dim="pixels"),
      layers.Dense(64, activation="tanh", dim="hidden"),
      layers.Dropout(0.25),
      layers.Dense(NUM_CLASSES, dim="classes"),
  ], name="image")


def token_model():
  """Takes each pixel's grey value, 0 to 16, for a token."""
  return mk.Sequential([
      mk.Input((8, 8), dims=("rows", "cols"), dtype="int32"),
      layers.Embedding(20, 8, dim="features", vocabulary_dim="vocabulary"),
      layers.Flatten(dim="pixels"),
      layers.Dense(64, activation="tanh", dim="hidden"),
      layers.LayerNormalization(),
      layers.Dense(NUM_CLASSES, dim="classes"),
  ], name="token")


def digest(weights):
  """Returns a number that any changed bit of the weights changes."""
  hasher = hashlib.sha256()
  for weight in weights:
    hasher.update(np.ascontiguousarray(weight).tobytes())
  return hasher.hexdigest()


def train(case):
  """Returns (numbers, final weights) of one case."""
  x, y, x_test, y_test = read_data()
  mk.set_random_seed(1)
  model = token_model() if case["model"] == "token" else image_model()
  if case["model"] == "image":
    x, x_test = x / 16, x_test / 16
  model.compile(
      optimizer=mk.optimizers.Adam(1e-3),
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      metrics=["accuracy"],
      mesh=case["mesh"],
      layout=case["layout"])
  initial = digest(model.get_weights())
  history = model.fit(
      x, y, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=0,
      validation_data=(x_test, y_test))
  numbers = {
      "initial": initial,
      "history": history.history,
      "loss": model.evaluate(x, y, batch_size=BATCH_SIZE, verbose=0)[0],
      "collectives": len(model.collectives_per_step(BATCH_SIZE)),
  }
  return numbers, model.get_weights()


def main(cases_path, directory):
  with open(cases_path, encoding="utf-8") as file:
    cases = json.load(file)
  for case in cases:
    numbers, weights = train(case)
    if os.environ.get("HOROVOD_RANK", "0") != "0":
      continue
    path = os.path.join(directory, case["name"])
    np.savez(path + ".npz", *weights)
    with open(path + ".json", "w", encoding="utf-8") as file:
      json.dump(numbers, file)


if __name__ == "__main__":
  main(*sys.argv[1:])
