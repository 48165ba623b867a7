"""Stores with variables of every kind, on simulated meshes, for tests."""

import numpy as np

from meshkeras.mesh import Layout, Mesh
from meshkeras.models.runtime import Runtime
from meshkeras.store import counter_random, restore
from meshkeras.upstream import tf

VARIABLES = (
    ("a/kernel", (("in", 8), ("hidden", 12)), "float32"),
    ("a/bias", (("hidden", 12),), "float32"),
    ("scalar", (), "float64"),
    ("b/kernel", (("hidden", 12), ("rows", 4), ("cols", 6)), "bfloat16"),
    ("spectrum", (("rows", 4), ("z", 3)), "complex64"),
    ("counts", (("cols", 6),), "int64"),
    ("flags", (("in", 8),), "bool"),
    ("half", (("cols", 6), ("in", 8)), "float16"),
    # Of several blocks of checksums, and large enough to be cut for owners.
    ("big", (("in", 8), ("wide", 70000)), "float32"))
LAYOUTS = (
    ("", ""), ("d:2", "in:d"), ("d:4", "hidden:d"), ("d:4", ""),
    ("d:2,m:2", "rows:d,hidden:m"), ("d:2,m:2", "wide:m,in:d"),
    ("m:2", "cols:m"))
WEIGHTS = ("weight",)


def initial(key, sizes, box, dtype):
  return (counter_random.numpy_normal(key, sizes, box) * 3).astype(dtype)


def make_store(mesh, layout, variables=VARIABLES):
  runtime = Runtime(Mesh(mesh, simulate=True), Layout(layout), seed=3)
  for name, dims, dtype in variables:
    runtime.store.create(name, dims, tf.as_dtype(dtype), initial,
                         trainable=True, role="weight")
  runtime.store.initialize()
  return runtime.store


def full_values(store):
  return {name: store.gather(name).tobytes() for name in store.names()}


def clear(store):
  for name in store.names():
    store.write_slices(name, {
        rank: np.zeros_like(value)
        for rank, value in store.read_slices(name).items()})


def load(store, path, strict=True):
  return restore.restore(
      store, path, restore.read_agreed(path), WEIGHTS, strict)
