"""A learning rate that falls when nothing gets better."""

from meshkeras.callbacks.monitor import Monitor
from meshkeras.errors import ArgumentError
from meshkeras.models.hooks import Callback


class ReduceLROnPlateau(Callback):
  """Multiplies the learning rate by `factor` after `patience` idle epochs.

  The rate that each epoch trained with is put in its logs as
  "learning_rate".

  Args:
    monitor: entry of the epoch's logs.
    factor: between 0 and 1.
    patience: epochs without a gain before the rate falls.
    verbose: 1 writes a line when it falls.
    mode: "min", "max", or "auto", which knows the usual names.
    min_delta: a smaller gain counts as none.
    cooldown: epochs after a fall that are not counted.
    min_lr: the rate does not fall below it.

  Raises:
    ArgumentError: factor is not below 1, "auto" cannot tell the mode, or the
      logs lack `monitor`.
  """

  def __init__(self, monitor="val_loss", factor=0.1, patience=10, verbose=0,
               mode="auto", min_delta=1e-4, cooldown=0, min_lr=0.0):
    if not 0 < factor < 1:
      raise ArgumentError(
          "ReduceLROnPlateau: factor=%r given; accepted is a number between "
          "0 and 1. Change it." % (factor,))
    self.monitor = monitor
    self.factor = factor
    self.patience = patience
    self.verbose = verbose
    self.mode = mode
    self.min_delta = min_delta
    self.cooldown = cooldown
    self.min_lr = min_lr
    self._begin()

  def _begin(self):
    self._watched = Monitor(
        "ReduceLROnPlateau", self.monitor, self.mode, self.min_delta)
    self.wait = 0
    self.cooldown_left = 0

  @property
  def best(self):
    return self._watched.best

  def get_state(self):
    return {"wait": self.wait, "best": self.best,
            "cooldown_left": self.cooldown_left}

  def set_state(self, state):
    self.wait = state["wait"]
    self._watched.best = state["best"]
    self.cooldown_left = state["cooldown_left"]

  def on_train_begin(self, logs=None):
    self._begin()

  def on_epoch_end(self, epoch, logs=None):
    rate = float(self.model.optimizer.learning_rate)
    value = self._watched.value(logs)
    if logs is not None:
      logs["learning_rate"] = rate
    if value is None:
      return
    if self.cooldown_left:
      self.cooldown_left -= 1
      self.wait = 0
    if self._watched.update(value):
      self.wait = 0
    elif not self.cooldown_left:
      self.wait += 1
      if self.wait >= self.patience and rate > self.min_lr:
        self._reduce(epoch, rate)

  def _reduce(self, epoch, rate):
    rate = max(rate * self.factor, self.min_lr)
    self.model.optimizer.learning_rate = rate
    self.wait = 0
    self.cooldown_left = self.cooldown
    if self.verbose:
      self.announce("Epoch %d: learning rate falls to %g" % (epoch + 1, rate))
