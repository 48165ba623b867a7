"""What runs beside a fit: the hook base class, their list, the history."""

import sys

from meshkeras.errors import ArgumentError
from meshkeras.layers.configured import plain_value


class Callback:
  """Something that runs at given points of fit, evaluate and predict.

  Subclass it and write the hooks you need; each does nothing here. Every
  hook runs on every process, with the same `logs` everywhere, so a hook may
  call `model.get_weights()` or `model.evaluate()` without asking which
  process it is on. What must happen once (a file, a line on the screen)
  goes under `if self.is_chief` or through `announce`.

  A hook that stops a fit sets `self.model.stop_training = True`. Hooks get
  whole-epoch values in `logs`; `on_train_batch_end` gets the means of the
  epoch so far, for which metrics must be reduced over the processes at
  every batch: a callback that writes this hook makes small models slower.

  Attributes:
    model: the model, from `on_train_begin` on.
    params: dict with "epochs", "steps", "verbose" and "is_chief".

  Example:
    >>> class Loud(Callback):
    ...   def on_epoch_end(self, epoch, logs=None):
    ...     self.announce("epoch %d: loss %.1f" % (epoch, logs["loss"]))
    >>> CallbackList([Loud()]).on_epoch_end(0, {"loss": 2.5})
    epoch 0: loss 2.5
  """

  model = None
  params = {}

  @property
  def is_chief(self):
    """True on the one process that writes to files and to the screen."""
    return self.params.get("is_chief", True)

  def announce(self, text):
    """Writes one line to the screen, on one process only."""
    if self.is_chief:
      sys.stdout.write(text + "\n")
      sys.stdout.flush()

  def set_params(self, params):
    """Called once, before the first hook."""
    self.params = params

  def set_model(self, model):
    """Called once, before the first hook."""
    self.model = model

  def get_state(self):
    """Returns what a checkpoint keeps of this callback: plain JSON values."""
    return {}

  def set_state(self, state):
    """Takes back what `get_state` returned; called after on_train_begin."""

  @property
  def state_key(self):
    """Under which name a checkpoint keeps the state."""
    return type(self).__name__

  def save_after_batch(self, batch):
    """After a training step, when every callback has seen it.

    For what saves the state of all of them; it must cost nothing when it
    does not save.
    """

  def save_after_epoch(self, epoch, logs=None):
    """After an epoch, when every callback's `on_epoch_end` has run."""

  def on_train_begin(self, logs=None):
    """Before the first epoch."""

  def on_train_end(self, logs=None):
    """After the last epoch; `logs` are that epoch's."""

  def on_epoch_begin(self, epoch, logs=None):
    """Before an epoch, counted from 0."""

  def on_epoch_end(self, epoch, logs=None):
    """After an epoch and its validation. Values put in `logs` are kept."""

  def on_batch_begin(self, batch, logs=None):
    """Keras's older name of `on_train_batch_begin`."""

  def on_batch_end(self, batch, logs=None):
    """Keras's older name of `on_train_batch_end`."""

  def on_train_batch_begin(self, batch, logs=None):
    """Before a training step, counted from 0 in its epoch."""
    self.on_batch_begin(batch, logs)

  def on_train_batch_end(self, batch, logs=None):
    """After a training step; `logs` are the means of the epoch so far."""
    self.on_batch_end(batch, logs)

  def on_test_begin(self, logs=None):
    """Before an evaluation, also one inside a fit."""

  def on_test_end(self, logs=None):
    """After an evaluation; `logs` are its results."""

  def on_test_batch_begin(self, batch, logs=None):
    """Before a step of an evaluation."""

  def on_test_batch_end(self, batch, logs=None):
    """After a step of an evaluation; `logs` are the means so far."""

  def on_predict_begin(self, logs=None):
    """Before a prediction."""

  def on_predict_end(self, logs=None):
    """After a prediction."""

  def on_predict_batch_begin(self, batch, logs=None):
    """Before a step of a prediction."""

  def on_predict_batch_end(self, batch, logs=None):
    """After a step of a prediction."""


class History(Callback):
  """The values of each epoch, as `fit` returns them.

  Attributes:
    epoch: list of the epochs done, counted from 0.
    history: {name: list of values, one per epoch that has it}.
  """

  def __init__(self):
    self.epoch = []
    self.history = {}

  def on_epoch_end(self, epoch, logs=None):
    self.epoch.append(epoch)
    for name, value in (logs or {}).items():
      self.history.setdefault(name, []).append(value)

  def get_state(self):
    return {"epoch": list(self.epoch),
            "history": {name: list(values)
                        for name, values in self.history.items()}}

  def set_state(self, state):
    self.epoch = list(state["epoch"])
    self.history = {name: list(values)
                    for name, values in state["history"].items()}


class CallbackList:
  """Calls each hook of several callbacks, in the order given.

  All of them get the same `logs` dictionary, so what one adds, the later
  ones see.

  Args:
    callbacks: sequence of Callback, or None.
    model: given to each by `set_model`.
    params: dict given to each by `set_params`; see Callback.

  Raises:
    ArgumentError: one of them is no meshkeras Callback.
  """

  def __init__(self, callbacks=None, model=None, params=None):
    self._callbacks = tuple(_check_callbacks(callbacks))
    for callback in self._callbacks:
      callback.set_params(dict(params or {}))
      callback.set_model(model)

  def __iter__(self):
    return iter(self._callbacks)

  @property
  def wants_batch_logs(self):
    """True if some callback looks at the numbers of each training step."""
    return self._any_writes("on_train_batch_end", "on_batch_end")

  @property
  def wants_test_batch_logs(self):
    """True if some callback looks at the numbers of each evaluation step."""
    return self._any_writes("on_test_batch_end")

  @property
  def watches_batches(self):
    """True if some callback has a hook at each training step."""
    return self.wants_batch_logs or self._any_writes(
        "on_train_batch_begin", "on_batch_begin")

  def _any_writes(self, *hooks):
    return any(
        hook in vars(callback)
        or getattr(type(callback), hook) is not getattr(Callback, hook)
        for callback in self._callbacks for hook in hooks)

  def _call(self, hook, *args):
    for callback in self._callbacks:
      getattr(callback, hook)(*args)

  def _by_key(self):
    """Yields (key, callback); the second of one key has "_1" added."""
    taken = {}
    for callback in self._callbacks:
      key = callback.state_key
      number = taken[key] = taken.get(key, -1) + 1
      yield (key if not number else "%s_%d" % (key, number)), callback

  def get_state(self):
    """Returns {key: state} of the callbacks that keep one."""
    states = {
        key: plain_value(callback.get_state(),
                         "%s: get_state" % type(callback).__name__)
        for key, callback in self._by_key()}
    return {key: state for key, state in states.items() if state}

  def set_state(self, states):
    """Gives each callback its state of `get_state`, where it is known."""
    for key, callback in self._by_key():
      if key in states:
        callback.set_state(states[key])

  def save_after_batch(self, batch):
    self._call("save_after_batch", batch)

  def save_after_epoch(self, epoch, logs=None):
    self._call("save_after_epoch", epoch, logs)

  def on_train_begin(self, logs=None):
    self._call("on_train_begin", logs)

  def on_train_end(self, logs=None):
    self._call("on_train_end", logs)

  def on_epoch_begin(self, epoch, logs=None):
    self._call("on_epoch_begin", epoch, logs)

  def on_epoch_end(self, epoch, logs=None):
    self._call("on_epoch_end", epoch, logs)

  def on_train_batch_begin(self, batch, logs=None):
    self._call("on_train_batch_begin", batch, logs)

  def on_train_batch_end(self, batch, logs=None):
    self._call("on_train_batch_end", batch, logs)

  def on_test_begin(self, logs=None):
    self._call("on_test_begin", logs)

  def on_test_end(self, logs=None):
    self._call("on_test_end", logs)

  def on_test_batch_begin(self, batch, logs=None):
    self._call("on_test_batch_begin", batch, logs)

  def on_test_batch_end(self, batch, logs=None):
    self._call("on_test_batch_end", batch, logs)

  def on_predict_begin(self, logs=None):
    self._call("on_predict_begin", logs)

  def on_predict_end(self, logs=None):
    self._call("on_predict_end", logs)

  def on_predict_batch_begin(self, batch, logs=None):
    self._call("on_predict_batch_begin", batch, logs)

  def on_predict_batch_end(self, batch, logs=None):
    self._call("on_predict_batch_end", batch, logs)


def _check_callbacks(callbacks):
  if callbacks is None:
    return []
  if isinstance(callbacks, Callback):
    callbacks = [callbacks]
  try:
    callbacks = list(callbacks)
  except TypeError:
    callbacks = [callbacks]
  for callback in callbacks:
    if isinstance(callback, type) or not isinstance(callback, Callback):
      kind = callback if isinstance(callback, type) else type(callback)
      raise ArgumentError(
          "callbacks: %s %s.%s given; accepted is a list of objects whose "
          "class derives from meshkeras.callbacks.Callback (it has Keras's "
          "hooks). %s"
          % ("the class" if callback is kind else "an object of",
             kind.__module__, kind.__qualname__,
             "Make an object of it." if callback is kind
             else "Change the base class."))
  return callbacks
