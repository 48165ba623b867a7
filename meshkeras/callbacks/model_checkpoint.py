"""Checkpoints of a fit: after epochs or batches, the best or the newest."""


from meshkeras.callbacks.monitor import Monitor
from meshkeras.errors import ArgumentError
from meshkeras.models.hooks import Callback
from meshkeras.saving import delete_checkpoint, wait_for_saves
from meshkeras.store.paths import checked_path

_OPTIONS = {"keep": None, "keep_best": None, "asynchronous": False}


class ModelCheckpoint(Callback):
  """Saves the model while it is trained.

  It saves after every callback has seen the epoch or the batch, so that
  what they know is in the checkpoint whatever their order.

  Args:
    filepath: of the checkpoint, a directory. Names in braces are filled in:
      "{epoch:03d}-{val_loss:.3f}"; epochs are counted from 1, "batch" is
      that of save_freq. Without names each save replaces the last.
    monitor: entry of the logs.
    verbose: 1 says what is saved.
    save_best_only: whether to save only when `monitor` is better than ever,
      in this run and in those that it goes on from.
    save_weights_only: whether to save the weights alone.
    mode: "min", "max", or "auto" to tell by the name of the entry.
    save_freq: "epoch", or a number of batches.
    initial_value_threshold: what the first best must be better than.
    **options: beyond Keras's arguments.
      keep: how many checkpoints of this callback to keep, the newest;
      keep_best: how many beside them, the best by `monitor`; None for all;
      asynchronous: write while training goes on. The next save and the end
      of the fit wait for it.

  When split:
    any dim: see `Model.save`.

  Raises:
    ArgumentError: a value that is not accepted; a name in filepath that the
      logs lack.
    CheckpointError: a save has failed, on every process.
  """

  def __init__(self, filepath, monitor="val_loss", verbose=0,
               save_best_only=False, save_weights_only=False, mode="auto",
               save_freq="epoch", initial_value_threshold=None, **options):
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
      raise ArgumentError(
          "ModelCheckpoint: keyword %r given; accepted beside Keras's are "
          "%s. Correct or remove it."
          % (unknown[0], ", ".join(sorted(_OPTIONS))))
    for name, default in _OPTIONS.items():
      setattr(self, name, options.get(name, default))
    self.filepath = checked_path("ModelCheckpoint", "filepath", filepath)
    self.monitor = monitor
    self.verbose = verbose
    self.save_best_only = save_best_only
    self.save_weights_only = save_weights_only
    self.mode = mode
    self.save_freq = save_freq
    self.initial_value_threshold = initial_value_threshold
    self._check()
    self._begin()

  def _check(self):
    Monitor("ModelCheckpoint", self.monitor, self.mode)  # refuses a mode
    if self.save_freq != "epoch" and not _is_count(self.save_freq):
      raise ArgumentError(
          "ModelCheckpoint: save_freq=%r given; accepted is 'epoch' or a "
          "number of batches, at least 1. Change it." % (self.save_freq,))
    for name in ("keep", "keep_best"):
      value = getattr(self, name)
      if value is not None and not _is_count(value):
        raise ArgumentError(
            "ModelCheckpoint: %s=%r given; accepted is a whole number of at "
            "least 1, or None for all. Change it." % (name, value))
    if self.keep_best is not None and self.keep is None:
      raise ArgumentError(
          "ModelCheckpoint: keep_best=%r given without keep, so all would be "
          "kept. Give keep too." % (self.keep_best,))

  def _begin(self):
    self._watched = None
    if self.save_best_only or self.keep_best is not None:
      self._watched = Monitor("ModelCheckpoint", self.monitor, self.mode)
      self._watched.best = self.initial_value_threshold
    self._epoch = 0
    self._batches = 0
    self._saved = []

  @property
  def state_key(self):
    return "ModelCheckpoint(%s)" % self.monitor

  @property
  def best(self):
    """The best value so far; None if there is none or none is watched."""
    return None if self._watched is None else self._watched.best

  def get_state(self):
    return {"best": self.best, "batches": self._batches,
            "saved": [list(entry) for entry in self._saved]}

  def set_state(self, state):
    if self._watched is not None and state["best"] is not None:
      self._watched.best = state["best"]
    self._batches = state["batches"]
    self._saved = [tuple(entry) for entry in state["saved"]]

  def on_train_begin(self, logs=None):
    self._begin()
    if not self.save_weights_only:
      # A layer that cannot be rebuilt is told before the first epoch.
      self.model.describe()

  def on_epoch_begin(self, epoch, logs=None):
    self._epoch = epoch

  def save_after_batch(self, batch):
    if self.save_freq == "epoch":
      return
    self._batches += 1
    if self._batches >= self.save_freq:
      self._batches = 0
      self._consider(self.model.fit_loop.logs(), batch + 1)

  def save_after_epoch(self, epoch, logs=None):
    if self.save_freq == "epoch":
      self._consider(logs or {}, None)

  def on_train_end(self, logs=None):
    if self.asynchronous:
      wait_for_saves()
      self._prune(self._saved)

  def _consider(self, logs, batch):
    value = None if self._watched is None else self._watched.value(logs)
    better = value is not None and self._watched.update(value)
    if self.save_best_only and not better:
      return
    path = self._path(logs, batch)
    # Into the state before it is saved, so that the checkpoint knows itself.
    self._saved = [entry for entry in self._saved if entry[0] != path]
    self._saved.append((path, value))
    if self.verbose:
      self.announce("Epoch %d: saving to %s" % (self._epoch + 1, path))
    if self.save_weights_only:
      self.model.save_weights(path, asynchronous=self.asynchronous)
    else:
      self.model.save(path, asynchronous=self.asynchronous)
    # One that is still being written is not there yet to replace another.
    self._prune(self._saved[:-1] if self.asynchronous else self._saved)

  def _path(self, logs, batch):
    known = dict(logs, epoch=self._epoch + 1)
    if batch is not None:
      known["batch"] = batch
    try:
      return self.filepath.format(**known)
    except (KeyError, IndexError, ValueError) as error:
      raise ArgumentError(
          "ModelCheckpoint: filepath=%r given; it cannot be filled in (%s: "
          "%s); known are %s. Change filepath."
          % (self.filepath, type(error).__name__, error,
             ", ".join(sorted(known)))) from None

  def _prune(self, saved):
    """Removes the checkpoints that keep and keep_best leave out."""
    for entry in self._surplus(saved):
      delete_checkpoint(entry[0], wait=False)
      self._saved.remove(entry)

  def _surplus(self, saved):
    if self.keep is None:
      return []
    old = saved[:-self.keep]
    if self.keep_best is None:
      return old
    best = []
    for entry in saved:
      place = sum(1 for other in saved
                  if other is not entry and other[1] is not None
                  and (entry[1] is None
                       or self._watched.is_better(other[1], entry[1])))
      if place < self.keep_best and entry[1] is not None:
        best.append(entry)
    return [entry for entry in old if entry not in best]


def _is_count(value):
  return isinstance(value, int) and not isinstance(value, bool) and value >= 1
