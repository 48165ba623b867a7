"""A model's values and checkpoints: its methods that get, set, save, load."""

import numpy as np

from meshkeras.errors import (
  ArgumentError,
  CheckpointError,
  DimensionError,
)
from meshkeras.mesh import host_collectives
from meshkeras.mesh.together import on_every_process
from meshkeras.models.program import slot_name
from meshkeras.saving import config as config_lib
from meshkeras.store import commit, restore
from meshkeras.store.checksums import checksum
from meshkeras.version import __version__

WEIGHTS = ("weight",)
ALL = ("weight", "slot")

_NO_TRAINING = (
    "%s: it holds weights alone, without the optimizer's variables and the "
    "place in the training. Use load_weights, or a checkpoint of model.save.")
_INCOMPLETE = (
    "%s: the index lacks %s, or has it of another type. It was changed: use "
    "another checkpoint, or load_weights.")
_OTHER_SEED = (
    "%s: saved with seed %s; this model has seed %s, so the order of rows "
    "would change. Call meshkeras.set_random_seed(%s) before compile.")
_OTHER_PLACE = (
    "fit: initial_epoch=%d given after a checkpoint from epoch %d was "
    "restored. Leave initial_epoch out, or load_weights instead of restore.")


class Saving:
  """The part of Model that gives and takes values and checkpoints."""

  def forget_training(self):
    """Forgets where a fit was; compile calls it."""
    self._loop = None
    self._training = None
    self._resumed = None

  def run_fit(self, loop):
    """Runs a FitLoop and keeps where it ended, for `save`."""
    self._loop = loop
    try:
      loop.run()
      self._training = loop.state()
    finally:
      self._loop = None

  @property
  def fit_loop(self):
    """The FitLoop that runs, or None."""
    return self._loop

  @property
  def compiled_metrics(self):
    """((metric as given to compile, whether weighted), ...)."""
    return tuple(self._metrics)

  def resumed_state(self, initial_epoch):
    """Returns where the next fit goes on, once, or None for a new start.

    Args:
      initial_epoch: as given to fit.

    Raises:
      CheckpointError: initial_epoch is another epoch.
    """
    state, self._resumed = self._resumed, None
    if state is None:
      return None
    if not state["at_once"]:
      # Loaded for whatever use; Keras's way to go on is initial_epoch.
      begun = state["step_in_epoch"]
      return state if initial_epoch == state["epoch"] and (
          initial_epoch and not begun) else None
    if initial_epoch not in (0, state["epoch"]):
      raise CheckpointError(_OTHER_PLACE % (initial_epoch, state["epoch"]))
    return state

  @on_every_process
  def get_weights(self):
    """Returns the full values of `weights` as a list of NumPy arrays.

    Called by: every process; each gets all of them.
    """
    store = self.runtime.store  # first: it refuses a model not compiled
    host_collectives.barrier()
    return [store.gather(w.name) for w in self.weights]

  @on_every_process
  def set_weights(self, values):
    """Sets the full values of `weights`, in the same order.

    Args:
      values: list of arrays, the same on every process.

    Called by: every process.

    Raises:
      DimensionError: another number of arrays, or another shape; nothing
        is changed.
      OrderError: the model is not compiled.
      ProcessSetError: the processes have other values; nothing is changed.
    """
    store = self.runtime_to_load().store
    weights, values = self.weights, self._numbers(values)
    wrong = ["%s: %s expected, %s given" % (
        w.name, tuple(d.size for d in w.dims), v.shape)
             for w, v in zip(weights, values)
             if tuple(d.size for d in w.dims) != v.shape]
    if len(weights) != len(values) or wrong:
      raise DimensionError(
          "%s: set_weights got %d arrays for %d weights%s. Give what "
          "get_weights of an equal model returned."
          % (self.name, len(values), len(weights),
             "; ".join([""] + wrong)))
    host_collectives.check_equal(
        "set_weights: checksums of the values",
        [checksum(np.ascontiguousarray(value)) for value in values])
    for weight, value in zip(weights, values):
      store.scatter(weight.name, value)

  def _numbers(self, values):
    """Returns what set_weights was given as a list of arrays of numbers."""
    try:
      arrays = [np.asarray(value) for value in values]
      # bfloat16 and its like are of kind V.
      wrong = [array.dtype.name for array in arrays
               if array.dtype.kind not in "biufcV"]
    except (TypeError, ValueError) as error:
      wrong = [str(error)]
    if wrong:
      raise ArgumentError(
          "%s: set_weights: %s given (%s); accepted is a list of arrays of "
          "numbers. Give what get_weights of an equal model returned."
          % (self.name, type(values).__name__, wrong[0]))
    return arrays

  @on_every_process
  def save(self, path, architecture=True, asynchronous=False):
    """Writes the model as a checkpoint: all that training goes on from.

    Architecture, compile arguments, weights, the optimizer's variables and
    iteration, and the place in the training with the callbacks' state. A
    checkpoint at the path is replaced in one act.

    Args:
      path: of a directory, the same on every process, on a file system that
        they share.
      architecture: False leaves architecture and compile arguments out, so
        that `restore` can load it and `load_model` cannot.
      asynchronous: copy the values and write them while training goes on;
        errors come with the next save or load, or with
        `meshkeras.saving.wait_for_saves()`.

    When split:
      any dim: no values travel; each is written once, by one that holds it.
    Called by: every process.

    Raises:
      CheckpointError: on every process: writing failed on one of them, or
        a layer cannot be rebuilt from its config.
    """
    store = self.runtime.store
    model = self.describe() if architecture else None
    training = self._loop.state() if self._loop is not None else (
        self._training or {"epoch": 0, "step_in_epoch": 0, "callbacks": {}})
    training["learning_rate"] = _plain_rate(self.optimizer)
    self._save(path, "model" if architecture else "training", store.names(),
               {"training": training, "model": model}, asynchronous)

  def describe(self):
    """Returns architecture and compile arguments as plain values.

    Raises:
      CheckpointError: a part cannot be rebuilt from its config.
    """
    self.build()
    return config_lib.describe(self)

  @on_every_process
  def save_weights(self, path, asynchronous=False):
    """Writes the weights alone, as a checkpoint.

    Args:
      path, asynchronous: as in `save`.

    Called by: every process.

    Raises:
      CheckpointError: writing failed on some process; on every process.
    """
    names = [v.name for v in self.runtime.store if v.role in WEIGHTS]
    self._save(path, "weights", names, {}, asynchronous)

  def _save(self, path, contents, names, more, asynchronous):
    training = more.get("training", {})
    header = {
        "writer": "meshkeras " + __version__, "contents": contents,
        "step": self.iterations, "epoch": training.get("epoch"),
        "step_in_epoch": training.get("step_in_epoch"),
        "seed": self.runtime.seed, **more}
    commit.save(self.runtime.store, path, header, names, asynchronous)

  @on_every_process
  def load_weights(self, path, strict=True):
    """Sets the weights from a checkpoint of any mesh, layout and job size.

    Args:
      path: of the checkpoint, made by `save` or `save_weights`.
      strict: whether names, dims and types must be the model's; if not,
        those that fit are set.

    When split:
      any dim: a process reads the byte ranges of its own slices.
    Called by: every process.

    Returns: None if strict; else Differences: lists of `missing`,
      `unexpected` and `mismatched` names.
    Raises:
      CheckpointError: on every process; no weight has changed.
    """
    store = self.runtime_to_load().store
    host_collectives.check_equal("load_weights: strict", bool(strict))
    manifest = restore.read_agreed(path)
    found = restore.restore(store, path, manifest, WEIGHTS, strict)
    return None if strict else found

  @on_every_process
  def restore(self, path):
    """Goes on from a checkpoint: the next fit begins where it was made.

    Sets weights, the optimizer's variables, iteration and learning rate,
    and what the next fit takes up: epoch, step in the epoch, the callbacks'
    state and the History so far. The model is compiled as it was; the mesh
    and the layout may be others.

    Args:
      path: of the checkpoint, made by `save`.

    Called by: every process.

    Raises:
      CheckpointError: on every process; no variable has changed.
    """
    self.restore_from(path, restore.read_agreed(path), at_once=True)

  def restore_from(self, path, manifest, at_once):
    """As `restore`, from an index that was read.

    Args:
      path, manifest: of the checkpoint.
      at_once: whether the next fit goes on there whatever it is told.

    Raises:
      CheckpointError: as `restore`.
    """
    header = manifest.header
    if header.get("contents") not in ("model", "training"):
      raise CheckpointError(_NO_TRAINING % path)
    _check_header(header, path)
    runtime = self.runtime_to_load(header["seed"])
    if runtime.seed != header["seed"]:
      raise CheckpointError(_OTHER_SEED % (
          path, header["seed"], runtime.seed, header["seed"]))
    store = runtime.store
    has_slots = any(v.role == "slot" for v in manifest.variables.values())
    roles = ALL if has_slots or header["step"] else WEIGHTS
    if roles == ALL:
      self._make_slots(store)
    restore.restore(store, path, manifest, roles)
    self._take_training(header, at_once)

  def _make_slots(self, store):
    """Makes the optimizer's variables, as its first step would."""
    if self.optimizer is None:
      return
    for weight in self.trainable_weights:
      for name, initializer in self.optimizer.slots(weight).items():
        full_name = slot_name(weight.name, name)
        store.declare_slot(full_name)
        store.create(full_name, [(d.name, d.size) for d in weight.dims],
                     weight.dtype, initializer, trainable=False, role="slot")

  def _take_training(self, header, at_once):
    training = header["training"]
    if self.optimizer is not None:
      self.optimizer.iterations = header["step"]
      if training["learning_rate"] is not None:
        self.optimizer.learning_rate = training["learning_rate"]
    self._training = training
    self._resumed = dict(training, at_once=at_once)
    host_collectives.check_equal(
        "restore: the optimizer or the place in the training",
        [self.optimizer and self.optimizer.numbers(), training["epoch"],
         training["step_in_epoch"]])


def _check_header(header, path):
  """Raises CheckpointError if what going on needs is not in the index."""
  wrong = [key for key, kind in (
      ("seed", int), ("step", int), ("training", dict))
           if not isinstance(header.get(key), kind)]
  if not wrong:
    wrong = ["training: " + key for key in (
        "epoch", "step_in_epoch", "callbacks", "learning_rate")
             if key not in header["training"]]
  if wrong:
    raise CheckpointError(_INCOMPLETE % (path, ", ".join(wrong)))


def _plain_rate(optimizer):
  """Returns the learning rate if it is a number; a schedule has its own."""
  if optimizer is None or optimizer.scheduled:
    return None
  return float(optimizer.learning_rate)
