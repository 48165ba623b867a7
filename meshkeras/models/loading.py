"""load_model: a model from its checkpoint."""

import os

from meshkeras.errors import ArgumentError, CheckpointError
from meshkeras.mesh import Mesh
from meshkeras.mesh.process_sets import current_job
from meshkeras.mesh.together import on_every_process
from meshkeras.models.model import Model
from meshkeras.models.sequential import Sequential
from meshkeras.saving import config
from meshkeras.store import restore

_NO_ARCHITECTURE = (
    "%s: it holds no architecture (contents: %s). Build and compile the "
    "model and call load_weights or restore; or save by model.save.")

_NOT_BUILT = (
    "%s: the model cannot be built from what the index says of it (%s: %s). "
    "If classes of your own have changed since, give those it was saved "
    "with; else the index was changed: use another checkpoint, or build the "
    "model and load_weights.")


@on_every_process
def load_model(path, mesh=None, layout=None, custom_objects=None):
  """Returns a compiled model as `model.save` wrote it.

  The mesh, the layout and the number of processes may be others than those
  it was saved with. As in Keras, `fit` starts a new training on it, or goes
  on with `initial_epoch` set to the epochs done; `model.restore(path)` goes
  on at the very step, callbacks and History included.

  Args:
    path: of the checkpoint.
    mesh: Mesh or text. If neither mesh nor layout is given, the saved ones
      are taken where this job has as many processes, else compile's
      defaults.
    layout: Layout or text.
    custom_objects: {name: class or function} for what is not registered.

  Called by: every process.

  Raises:
    ArgumentError: custom_objects is no dictionary, or path no path.
    CheckpointError: on every process: the checkpoint is damaged, holds no
      architecture, or needs classes that are not known.
    LayoutError: the layout does not fit the model.
  """
  if not isinstance(custom_objects, (dict, type(None))):
    raise ArgumentError(
        "load_model: custom_objects=%r given; accepted is a dictionary {name: "
        "class or function}. Change it." % (custom_objects,))
  manifest = restore.read_agreed(path)
  description = manifest.header.get("model")
  if not description:
    raise CheckpointError(_NO_ARCHITECTURE % (
        os.fspath(path), manifest.header.get("contents")))
  if mesh is None and layout is None:
    saved = Mesh(manifest.header["mesh"])
    if saved.size == current_job().size:
      mesh, layout = saved, manifest.header["layout"]
  try:
    model, compiled = config.rebuild(
        description, {"Model": Model, "Sequential": Sequential},
        custom_objects)
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise CheckpointError(_NOT_BUILT % (
        os.fspath(path), type(error).__name__, error)) from error
  model.compile(mesh=mesh, layout=layout, **compiled)
  model.restore_from(path, manifest, at_once=False)
  return model
