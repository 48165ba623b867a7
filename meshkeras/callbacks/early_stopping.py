"""Ending a fit that no longer gets better."""

from meshkeras.callbacks.monitor import Monitor
from meshkeras.models.hooks import Callback


class EarlyStopping(Callback):
  """Stops a fit when `monitor` has not improved for `patience` epochs.

  Args:
    monitor: entry of the epoch's logs.
    min_delta: a smaller gain counts as none.
    patience: epochs without a gain before the fit stops.
    verbose: 1 writes a line when it stops.
    mode: "min", "max", or "auto", which knows the usual names.
    baseline: value that must be beaten within `patience` epochs, or None.
    restore_best_weights: put the weights of the best epoch back at the end,
      if there was a best epoch.
    start_from_epoch: epochs at the start that are not looked at.

  When split:
    any dim: with restore_best_weights every split weight is gathered after
      each best epoch, and each process keeps a full copy of all weights.

  Attributes:
    stopped_epoch: the epoch after which it stopped, counted from 0; 0 if it
      did not.
    best, best_epoch: the best value and its epoch; None before there is one.

  Raises:
    ArgumentError: "auto" cannot tell the mode, or the logs lack `monitor`.
  """

  def __init__(self, monitor="val_loss", min_delta=0, patience=0, verbose=0,
               mode="auto", baseline=None, restore_best_weights=False,
               start_from_epoch=0):
    self.monitor = monitor
    self.min_delta = min_delta
    self.patience = patience
    self.verbose = verbose
    self.mode = mode
    self.baseline = baseline
    self.restore_best_weights = restore_best_weights
    self.start_from_epoch = start_from_epoch
    self._begin()

  def _begin(self):
    self._watched = Monitor(
        "EarlyStopping", self.monitor, self.mode, self.min_delta)
    self.wait = 0
    self.stopped_epoch = 0
    self.best_epoch = None
    self.best_weights = None

  @property
  def best(self):
    return self._watched.best

  def get_state(self):
    """Returns the counters and the best value, not the best weights."""
    return {"wait": self.wait, "best": self.best,
            "best_epoch": self.best_epoch,
            "stopped_epoch": self.stopped_epoch}

  def set_state(self, state):
    self.wait = state["wait"]
    self._watched.best = state["best"]
    self.best_epoch = state["best_epoch"]
    self.stopped_epoch = state["stopped_epoch"]

  def on_train_begin(self, logs=None):
    self._begin()

  def on_epoch_end(self, epoch, logs=None):
    value = self._watched.value(logs)
    if value is None or epoch < self.start_from_epoch:
      return
    self.wait += 1
    if self._watched.update(value):
      self.best_epoch = epoch
      if self.restore_best_weights:
        self.best_weights = self.model.get_weights()
      if self.baseline is None or self._watched.is_better(
          value, self.baseline):
        self.wait = 0
    elif self.wait >= self.patience and epoch > 0:
      self.stopped_epoch = epoch
      self.model.stop_training = True

  def on_train_end(self, logs=None):
    if self.verbose and self.stopped_epoch:
      self.announce("Epoch %d: early stopping" % (self.stopped_epoch + 1))
    if self.best_weights is not None:
      if self.verbose:
        self.announce("Weights of epoch %d put back" % (self.best_epoch + 1))
      self.model.set_weights(self.best_weights)
