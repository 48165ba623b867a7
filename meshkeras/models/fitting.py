"""fit, evaluate, predict and their like, as methods of a model."""

import sys

from meshkeras import data
from meshkeras.errors import ArgumentError, OrderError, near_names
from meshkeras.layers.arguments import whole_number
from meshkeras.mesh import Layout, Mesh
from meshkeras.mesh.together import on_every_process
from meshkeras.models import batches as batches_lib
from meshkeras.models import summary, trainer
from meshkeras.models.batches import Given
from meshkeras.models.hooks import CallbackList, History
from meshkeras.models.program import EVALUATE, PREDICT, TRAIN
from meshkeras.models.progress import ProgressBar

_FIT_OPTIONS = {
    "validation_batch_size": None, "validation_steps": None,
    "validation_freq": 1, "steps_per_epoch": None, "initial_epoch": 0}


class Fitting:
  """The part of Model that runs its functions on data."""

  @on_every_process
  def fit(self, x=None, y=None, batch_size=32, epochs=1, verbose="auto",
          callbacks=None, validation_split=0.0, validation_data=None,
          shuffle=True, class_weight=None, sample_weight=None, **options):
    """Trains on every row once per epoch and returns the History.

    Args:
      x: array [rows, ...]: NumPy array or memory map, the same on every
        process, which touches only its own rows and columns.
      y: array [rows, ...].
      batch_size: examples of the global batch; steps per epoch are
        ceil(rows / batch_size) on any mesh.
      epochs: number of the last epoch.
      verbose: 0, 1 (a bar), 2 (a line per epoch) or "auto" (1).
      callbacks: list of Callback.
      validation_split: share of the last rows to validate on instead.
      validation_data: (x, y) or (x, y, sample_weight).
      shuffle: whether each epoch has its own order, the same at every mesh.
      class_weight: {class: weight}, for the training loss only, as Keras.
      sample_weight: array [rows].
      **options: initial_epoch, steps_per_epoch, validation_batch_size,
        validation_steps, validation_freq, as in Keras.

    Called by: every process.

    Returns: History, equal on every process.
    Raises:
      OrderError: the model is not compiled.
      DataError: the arrays do not fit; nothing is trained.
      ArgumentError: an unknown keyword, or a value that is not accepted.
    """
    options = _fit_options(options, batch_size, epochs, shuffle)
    self._check_compiled("fit", training=True)
    validation_arrays = _validation_arrays(validation_data)
    if validation_split and validation_arrays is None:
      (x, y, sample_weight), validation_arrays = data.cut_validation(
          (x, y, sample_weight), validation_split)
    self.build_for(x)
    batches = batches_lib.prepare(
        "fit", self, Given(x, y, sample_weight, class_weight),
        arguments=_agreed(
            options, validation_arrays, callbacks, self.optimizer))
    num_steps = data.steps_to_run(
        "fit", "steps_per_epoch", options["steps_per_epoch"],
        batches.num_rows, batch_size)
    history = History()
    callback_list = self._callback_list(
        _as_list(callbacks) + [history], epochs=epochs, verbose=verbose,
        steps=num_steps)
    validation = self._validation(validation_arrays, options, callback_list)
    self.run_fit(trainer.FitLoop(
        self, batches, validation, callback_list,
        self._progress(num_steps, verbose),
        dict(options, steps_per_epoch=num_steps)))
    return history

  @on_every_process
  def evaluate(self, x=None, y=None, batch_size=32, verbose="auto",
               sample_weight=None, steps=None, callbacks=None,
               return_dict=False):
    """Returns loss and metrics over every row once.

    Exact for any number of rows, any batch size and any mesh.

    Args:
      x, y, sample_weight: as in `fit`.
      batch_size: examples of the global batch.
      verbose: as in `fit`.
      steps: stop after so many, at most all there are; None for all.
      callbacks: list of Callback.
      return_dict: whether to return {name: float} instead of a list.

    Called by: every process; all get the same.

    Returns: the loss if there are no metrics; [loss, metric, ...]; or a
      dictionary.
    """
    data.num_steps(1, batch_size)  # refuses what is no batch size
    self._check_compiled("evaluate")
    self.build_for(x)
    batches = batches_lib.prepare(
        "evaluate", self, Given(x, y, sample_weight),
        arguments=[batch_size, steps])
    num_steps = data.steps_to_run(
        "evaluate", "steps", steps, batches.num_rows, batch_size)
    logs = trainer.evaluate(
        self, batches, batch_size, num_steps,
        self._callback_list(_as_list(callbacks)),
        self._progress(num_steps, verbose))
    return logs if return_dict else _as_keras(logs)

  @on_every_process
  def predict(self, x, batch_size=32, verbose="auto", steps=None,
              callbacks=None):
    """Returns the predictions [rows, ...], in the order of the rows.

    Args:
      x: as in `fit`.
      batch_size: examples of the global batch.
      verbose: as in `fit`.
      steps: stop after so many, at most all there are; None for all.
      callbacks: list of Callback.

    Called by: every process; all get the full array.
    """
    data.num_steps(1, batch_size)
    self._check_compiled("predict", loss=False)
    self.build_for(x)
    batches = batches_lib.prepare(
        "predict", self, Given(x), predict=True,
        arguments=[batch_size, steps])
    num_steps = data.steps_to_run(
        "predict", "steps", steps, batches.num_rows, batch_size)
    return trainer.predict(
        self, batches, batch_size, num_steps,
        self._callback_list(_as_list(callbacks)),
        self._progress(num_steps, verbose))

  @on_every_process
  def train_on_batch(self, x, y=None, sample_weight=None, class_weight=None,
                     return_dict=False):
    """Trains one step on all rows; returns as `evaluate`.

    Args:
      x, y, sample_weight, class_weight: as in `fit`; the global batch.
      return_dict: whether to return {name: float}.
    """
    self._check_compiled("train_on_batch", training=True)
    self.build_for(x)
    batches = batches_lib.prepare(
        "train_on_batch", self, Given(x, y, sample_weight, class_weight))
    logs = trainer.one_batch(self, batches, TRAIN)
    return logs if return_dict else _as_keras(logs)

  @on_every_process
  def test_on_batch(self, x, y=None, sample_weight=None, return_dict=False):
    """Evaluates one global batch; returns as `evaluate`."""
    self._check_compiled("test_on_batch")
    self.build_for(x)
    batches = batches_lib.prepare(
        "test_on_batch", self, Given(x, y, sample_weight))
    logs = trainer.one_batch(self, batches, EVALUATE)
    return logs if return_dict else _as_keras(logs)

  @on_every_process
  def predict_on_batch(self, x):
    """Returns the predictions of one global batch."""
    self._check_compiled("predict_on_batch", loss=False)
    self.build_for(x)
    batches = batches_lib.prepare(
        "predict_on_batch", self, Given(x), predict=True)
    return trainer.one_batch(self, batches, PREDICT)

  def _check_compiled(self, method, training=False, loss=True):
    if self._compiled is None:
      raise OrderError(
          "%s: %s called before compile, which gives the loss, the mesh and "
          "the layout. Call model.compile(...) first."
          % (self.name, method))
    missing = "an optimizer" if training and self.optimizer is None else (
        "a loss" if loss and self.loss is None else None)
    if missing:
      raise OrderError(
          "%s: %s called, but the model was compiled without %s. Give one "
          "to compile." % (self.name, method, missing))

  def _callback_list(self, callbacks, **params):
    return CallbackList(
        callbacks, self, dict(params, is_chief=self.runtime.job.is_chief))

  def _validation(self, arrays, options, callbacks):
    if arrays is None:
      return None
    x, y, weights = arrays
    batches = batches_lib.prepare(
        "fit: validation_data", self, Given(x, y, weights))
    batch_size = options["validation_batch_size"] or options["batch_size"]
    num_steps = data.steps_to_run(
        "fit: validation_data", "validation_steps",
        options["validation_steps"], batches.num_rows, batch_size)
    return lambda: trainer.evaluate(
        self, batches, batch_size, num_steps, callbacks,
        self._progress(num_steps, verbose=0))

  def _progress(self, num_steps, verbose):
    return ProgressBar(
        num_steps, verbose, is_chief=self.runtime.job.is_chief)


def show_summary(model, calls, compiled, print_fn):
  """Prints `model.summary()` on process 0."""
  mesh, layout = compiled or (Mesh(""), Layout(""))
  rows = [summary.LayerRow(layer.name, type(layer).__name__, dims)
          for layer, dims in calls]
  trainable = model.trainable_names
  variables = [
      summary.VariableRow(w.name, w.dims, w.dtype.size, w.name in trainable)
      for w in model.weights]
  if model.optimizer is not None:
    variables += [
        summary.VariableRow("%s/%s" % (w.name, slot), w.dims, w.dtype.size,
                            False, "slot")
        for w in model.trainable_weights
        for slot in model.optimizer.slots(w)]
  text = summary.summary_text(
      "%s %r" % (type(model).__name__, model.name), mesh, layout, rows,
      variables, traffic=_traffic(model))
  if print_fn is not None:
    print_fn(text)
  elif compiled is None or model.runtime.job.is_chief:
    sys.stdout.write(text + "\n")


def _traffic(model):
  """Returns TrafficRow of the training steps built so far, or None."""
  programs = [p for (function, _), p in sorted(model.programs.items())
              if function == TRAIN]
  if not programs:
    return None
  kinds = {}
  for collective in programs[-1].collectives:
    key = "%s over %s" % (collective.kind, "+".join(collective.axes))
    count, num_bytes = kinds.get(key, (0, 0))
    kinds[key] = (count + 1, num_bytes + collective.num_bytes)
  return [summary.TrafficRow(kind, count, num_bytes)
          for kind, (count, num_bytes) in sorted(kinds.items())]


def _fit_options(options, batch_size, epochs, shuffle):
  unknown = sorted(set(options) - set(_FIT_OPTIONS))
  if unknown:
    raise ArgumentError(
        "fit: keyword %r given, which it does not accept; %s Correct or "
        "remove it."
        % (unknown[0], near_names(unknown[0], list(_FIT_OPTIONS) + [
            "batch_size", "epochs", "verbose", "callbacks", "shuffle",
            "validation_split", "validation_data", "class_weight",
            "sample_weight"])))
  data.num_steps(1, batch_size)
  options = {**_FIT_OPTIONS, **options, "batch_size": batch_size,
             "epochs": epochs, "shuffle": shuffle}
  for name in ("epochs", "initial_epoch"):
    whole_number("fit", name, options[name], least=0)
  if options["validation_batch_size"] is not None:
    whole_number("fit", "validation_batch_size",
                 options["validation_batch_size"])
  if not isinstance(options["validation_freq"], (list, tuple, set, range)):
    whole_number("fit", "validation_freq", options["validation_freq"])
  return options


def _agreed(options, validation_arrays, callbacks, optimizer):
  """Returns what of a fit must be the same on every process, as text."""
  agreed = {name: str(value) for name, value in options.items()}
  agreed["validation"] = validation_arrays is not None
  agreed["callbacks"] = [_settings(c) for c in _as_list(callbacks)]
  agreed["optimizer"] = optimizer.numbers()
  return agreed


def _settings(callback):
  """Returns a callback's class and, of meshkeras's own, its arguments.

  One that saves after other steps than its twin on another process would
  wait for it for ever. What a user's callback keeps may differ.
  """
  cls = type(callback)
  if not cls.__module__.startswith("meshkeras."):
    return cls.__name__
  return [cls.__name__] + sorted(
      "%s=%r" % (name, value) for name, value in vars(callback).items()
      if not name.startswith("_")
      and isinstance(value, (bool, int, float, str, type(None))))


def _validation_arrays(validation_data):
  if validation_data is None:
    return None
  arrays = tuple(validation_data) if isinstance(
      validation_data, (tuple, list)) else ()
  if len(arrays) not in (2, 3):
    raise ArgumentError(
        "fit: validation_data has %s; accepted is (x, y) or (x, y, "
        "sample_weight). Give a tuple of them."
        % (("%d entries" % len(arrays)) if arrays
           else "type " + type(validation_data).__name__))
  return arrays + (None,) * (3 - len(arrays))


def _as_list(callbacks):
  if callbacks is None:
    return []
  return list(callbacks) if isinstance(callbacks, (list, tuple)) else [
      callbacks]


def _as_keras(logs):
  values = list(logs.values())
  return values[0] if len(values) == 1 else values
