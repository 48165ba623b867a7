"""The only file that imports TensorFlow, Mesh TensorFlow and Horovod.

Everything else takes `tf` (TensorFlow's graph-mode API), `mtf` and, through
`horovod()`, Horovod's TensorFlow binding from here, so that the shims which
newer TensorFlow releases need, and the checks of versions, stand in one
place. A process that a launcher started checks Horovod at import too, so
that all processes stop with the same message.
"""

import functools
import importlib
import json
import os
import pathlib
import warnings

from meshkeras import installed
from meshkeras.errors import UpstreamError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Where each launcher writes a process's number and the number of processes.
_LAUNCHERS = {
    "horovodrun": ("HOROVOD_RANK", "HOROVOD_SIZE"),
    "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
}
_NO_MPI = (
    "meshkeras: mpirun started these {size} processes, and the installed "
    "Horovod was built without MPI. Start them with Gloo instead: "
    "horovodrun -np {size} python ...")
_HOROVOD_NEEDS = ("ProcessSet", "reducescatter", "alltoall")


def _launch():
  """Returns (launcher, rank, size); ("", 0, 1) without a launcher."""
  for launcher, (rank, size) in _LAUNCHERS.items():
    if size in os.environ:
      return (launcher, int(os.environ.get(rank, "0")),
              int(os.environ[size]))
  return "", 0, 1


def launched_size():
  """Returns the number of processes of this job, 1 without a launcher."""
  return _launch()[2]


def _import(package, module):
  """Imports a module of `package`, or raises with the report of versions."""
  try:
    return importlib.import_module(module)
  # Whatever the import of a package that does not fit raises: a missing
  # module, a symbol that is not in a shared library, a renamed attribute.
  except Exception as error:
    if not installed.found_version(package):
      problem = "%s is not installed" % package
      raise UpstreamError(installed.report(package, problem)) from None
    problem = "importing %s fails with %s: %s" % (
        module, type(error).__name__, str(error).strip() or "no reason")
    raise UpstreamError(installed.report(package, problem)) from error


def _check_version(package, found):
  """Raises for a version older than tested; warns, once, for a newer one."""
  age = installed.age(package, found)
  if age == "older":
    raise UpstreamError(installed.report(package, "%s %s is too old" % (
        package, found)))
  if (age == "newer" and not installed.newer_is_ignored()
      and _launch()[1] == 0):
    warnings.warn(installed.newer_warning(package, found), stacklevel=3)


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


tf2 = _import("TensorFlow", "tensorflow")
_check_version("TensorFlow", tf2.__version__)
# Not the attribute `tf2.compat.v1`: that is another object, and Mesh TF
# imports this one.
tf = importlib.import_module("tensorflow.compat.v1")
_shim_conversion_function()
_shim_estimator()

mtf = _import("mesh-tensorflow", "mesh_tensorflow")
_check_version("mesh-tensorflow", installed.found_version("mesh-tensorflow"))
PlacementMeshImpl = _import(
    "mesh-tensorflow", "mesh_tensorflow.placement_mesh_impl"
).PlacementMeshImpl


def _horovod_problem(hvd):
  """Returns why an imported Horovod cannot be used, "" if it can."""
  lacking = [name for name in _HOROVOD_NEEDS if not hasattr(hvd, name)]
  if lacking:
    return "this Horovod has no %s" % ", no ".join(lacking)
  if not (hvd.gloo_built() or hvd.mpi_built()):
    return "this Horovod was built without Gloo"
  built = _built_for(hvd)
  if built and built.split(".")[:2] != tf2.__version__.split(".")[:2]:
    return "Horovod was built against TensorFlow %s, and %s is installed" % (
        built, tf2.__version__)
  return ""


def _built_for(hvd):
  """Returns the TensorFlow that Horovod was compiled against, "" if unknown.

  Another release series may load and then corrupt memory.
  """
  path = pathlib.Path(hvd.__file__).parent.parent / "metadata.json"
  try:
    return json.loads(path.read_text("utf-8")).get("tensorflow", "")
  except (OSError, ValueError):
    return ""


@functools.lru_cache(maxsize=None)
def horovod():
  """Returns Horovod's TensorFlow binding, imported and checked on first use.

  Raises:
    UpstreamError: Horovod is missing, cannot be imported, was compiled
      against another TensorFlow, or lacks what a mesh needs.
  """
  hvd = _import("Horovod", "horovod.tensorflow")
  problem = _horovod_problem(hvd)
  if problem:
    raise UpstreamError(installed.report("Horovod", problem))
  launcher, _, size = _launch()
  if launcher == "mpirun" and size > 1 and not hvd.mpi_built():
    raise UpstreamError(_NO_MPI.format(size=size))
  _check_version("Horovod", installed.found_version("Horovod"))
  return hvd


if launched_size() > 1:
  # Read by Horovod when it is initialised, by us or by the user: process
  # sets are made per mesh, after that.
  os.environ.setdefault("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
  horovod()


def lower(graph, mesh, mesh_impl):
  """Returns the mtf.Lowering of a graph with one mesh.

  Variables are not stacked, so that each stays one of the store's. Mesh TF
  writes some pages about each lowering to TensorFlow's log; they are left
  out.
  """
  verbosity = tf.logging.get_verbosity()
  tf.logging.set_verbosity(tf.logging.WARN)
  try:
    return mtf.Lowering(graph, {mesh: mesh_impl}, autostack=False)
  finally:
    tf.logging.set_verbosity(verbosity)
