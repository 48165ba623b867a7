"""The only file that imports TensorFlow, Mesh TensorFlow and Horovod.

Everything else takes `tf` (TensorFlow's graph-mode API), `mtf` and, through
`horovod()`, Horovod's TensorFlow binding from here, so that the shims which
newer TensorFlow releases need stand in one place.
"""

import importlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf2  # noqa: E402

tf = importlib.import_module("tensorflow.compat.v1")


def _shim_conversion_function():
  """Gives Mesh TF the private name that TensorFlow 2.15 removed."""
  private = importlib.import_module("tensorflow.python.framework.ops")
  if not hasattr(private, "register_tensor_conversion_function"):
    private.register_tensor_conversion_function = (
        tf2.register_tensor_conversion_function)


def _shim_estimator():
  """Gives Mesh TF the two Estimator classes it subclasses (TF >= 2.16)."""
  if hasattr(tf, "estimator"):
    return

  class _Estimator:
    CheckpointSaverListener = tf.train.CheckpointSaverListener
    SessionRunHook = tf.train.SessionRunHook

  tf.estimator = _Estimator


_shim_conversion_function()
_shim_estimator()

import mesh_tensorflow as mtf  # noqa: E402
from mesh_tensorflow import placement_mesh_impl  # noqa: E402

PlacementMeshImpl = placement_mesh_impl.PlacementMeshImpl


def launched_size():
  """Returns the number of processes of this job, 1 without a launcher."""
  return int(os.environ.get("HOROVOD_SIZE", "1"))


def horovod():
  """Returns Horovod's TensorFlow binding, imported on first use."""
  return importlib.import_module("horovod.tensorflow")


if launched_size() > 1:
  # Read by Horovod when it is initialised, by us or by the user: process
  # sets are made per mesh, after that.
  os.environ.setdefault("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
