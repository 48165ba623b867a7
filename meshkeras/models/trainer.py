"""The loops of fit, evaluate and predict over a model's programs."""

import time

import numpy as np

from meshkeras import data
from meshkeras.mesh import calls, host_collectives
from meshkeras.models.position import Position
from meshkeras.models.program import EVALUATE, PREDICT, TRAIN
from meshkeras.models.totals import Totals


class FitLoop:
  """The epochs of one fit.

  Args:
    model: compiled Model.
    batches: Batches of the training data.
    validation: function () -> logs of the validation data, or None.
    callbacks: CallbackList; the History is among them.
    progress: ProgressBar.
    options: dict of batch_size, epochs, initial_epoch, shuffle,
      steps_per_epoch, validation_freq.
  """

  def __init__(self, model, batches, validation, callbacks, progress,
               options):
    self._model = model
    self._batches = batches
    self._validation = validation
    self._callbacks = callbacks
    self._progress = progress
    self._options = options
    self._global_batch = min(options["batch_size"], batches.num_rows)
    self._num_steps = options["steps_per_epoch"]
    self._program = model.program(TRAIN, self._global_batch)
    self._watched = callbacks.watches_batches
    self._position = Position(options["initial_epoch"])

  def run(self):
    """Runs the epochs; every process leaves after the same step."""
    model, callbacks = self._model, self._callbacks
    model.stop_training = False
    callbacks.on_train_begin()
    resumed = model.resumed_state(self._options["initial_epoch"])
    if resumed is not None:
      self._resume(resumed)
    logs, last = {}, self._options["epochs"]
    if resumed is not None and model.stop_training:
      last = 0  # a callback had ended the fit
    for epoch in range(self._position.epoch, last):
      callbacks.on_epoch_begin(epoch)
      if self._position.step:
        # The epoch had begun before: what its hook changed is undone.
        self._resume(resumed)
      self._progress.begin(epoch, self._options["epochs"])
      logs = self._train_epoch(epoch)
      if self._validates(epoch):
        logs.update({"val_" + name: value
                     for name, value in self._validation().items()})
      self._progress.end(logs)
      callbacks.on_epoch_end(epoch, logs)
      self._position = Position(epoch + 1)
      callbacks.save_after_epoch(epoch, logs)
      if self._stops():
        break
    callbacks.on_train_end(logs)

  def _resume(self, state):
    """Takes the place in the epochs, and what callbacks knew there."""
    self._position = Position.from_state(
        state, self._data_state(), self._model.runtime.job)
    self._callbacks.set_state(state["callbacks"])
    if state["learning_rate"] is not None:
      self._model.optimizer.learning_rate = state["learning_rate"]

  def state(self):
    """Returns what a checkpoint keeps of this fit, plain JSON values.

    Called by: every process; within an epoch one collective.
    """
    return {**self._position.state(), "data": self._data_state(),
            "callbacks": self._callbacks.get_state()}

  def logs(self):
    """Returns the logs of the epoch so far.

    Called by: every process. One collective.
    """
    return self._position.totals.reduce(self._program)[0]

  def _data_state(self):
    return {"num_rows": self._batches.num_rows,
            "global_batch": self._global_batch,
            "shuffle": bool(self._options["shuffle"]),
            "metrics": [metric.name for metric, _ in self._program.metrics]}

  def _validates(self, epoch):
    frequency = self._options["validation_freq"]
    return self._validation is not None and (
        (epoch + 1) in frequency if hasattr(frequency, "__contains__")
        else (epoch + 1) % frequency == 0)

  def _order(self, epoch):
    permutation = None
    if self._options["shuffle"]:
      permutation = data.permutation(
          self._batches.num_rows, self._model.runtime.seed, epoch)
    return self._batches.order(self._global_batch, permutation)

  def _train_epoch(self, epoch):
    order, num_steps = self._order(epoch), self._num_steps
    first, totals = self._position.step, self._position.totals
    calls.begin_steps()
    refresh = first + 1
    begin = time.monotonic()
    read = self._batches.reader(self._program, order)
    with data.Prefetcher(read, range(first, num_steps)) as prefetched:
      for step, inputs in enumerate(prefetched, first):
        self._callbacks.on_train_batch_begin(step)
        self._train_step(inputs, order.num_real_rows(step), totals)
        self._position.step = step + 1
        if self._watched or (step + 1 == refresh and step + 1 < num_steps):
          interval = self._progress.suggested_interval(
              (time.monotonic() - begin) / (step + 1 - first))
          logs, interval = self._reduce(totals, interval)
          self._progress.update(step + 1, logs)
          self._callbacks.on_train_batch_end(step, logs)
          refresh = step + 1 + interval
          if self._watched and self._stops():
            break
        else:
          self._progress.update(step + 1)
        self._callbacks.save_after_batch(step)
    return totals.reduce(self._program)[0]

  def _train_step(self, inputs, num_rows, totals):
    optimizer = self._model.optimizer
    sums = self._program.run(inputs, num_rows, optimizer.iterations)
    optimizer.iterations += 1
    totals.add(sums, num_rows)

  def _reduce(self, totals, interval):
    """Returns (logs, steps to the next refresh), agreed by all processes.

    The interval is process 0's, which is the one that draws.
    """
    chief = self._model.runtime.job.is_chief
    logs, extra = totals.reduce(self._program, [interval if chief else 0])
    return logs, max(1, int(extra[0]))

  def _stops(self):
    """Whether a callback on any process asked to stop (B17)."""
    asked = host_collectives.sum_over_processes(
        [float(bool(self._model.stop_training))])
    self._model.stop_training = bool(asked[0])
    return self._model.stop_training


def evaluate(model, batches, batch_size, num_steps, callbacks, progress):
  """Returns {name: float} over every row once, equal on every process.

  Args:
    model: compiled Model.
    batches: Batches.
    batch_size: examples of a global batch.
    num_steps: how many to run, from the first row on.
    callbacks: CallbackList.
    progress: ProgressBar.
  """
  global_batch = min(batch_size, batches.num_rows)
  program = model.program(EVALUATE, global_batch)
  order = batches.order(global_batch)
  totals = Totals()
  calls.begin_steps()
  callbacks.on_test_begin()
  progress.begin()
  read = batches.reader(program, order)
  with data.Prefetcher(read, range(num_steps)) as prefetched:
    for step, inputs in enumerate(prefetched):
      callbacks.on_test_batch_begin(step)
      num_rows = order.num_real_rows(step)
      totals.add(
          program.run(inputs, num_rows, model.iterations), num_rows)
      logs = None
      if callbacks.wants_test_batch_logs:
        logs = totals.reduce(program)[0]
      callbacks.on_test_batch_end(step, logs)
      progress.update(step + 1, logs)
  logs = totals.reduce(program)[0]
  progress.end(logs)
  callbacks.on_test_end(logs)
  return logs


def predict(model, batches, batch_size, num_steps, callbacks, progress):
  """Returns the predictions [rows, ...] in the order of the rows.

  Called by: every process; each gets all rows.
  """
  global_batch = min(batch_size, batches.num_rows)
  program = model.program(PREDICT, global_batch)
  order = batches.order(global_batch)
  parts = []
  calls.begin_steps()
  callbacks.on_predict_begin()
  progress.begin()
  read = batches.reader(program, order)
  with data.Prefetcher(read, range(num_steps)) as prefetched:
    for step, inputs in enumerate(prefetched):
      callbacks.on_predict_batch_begin(step)
      num_rows = order.num_real_rows(step)
      output = program.run(inputs, num_rows, model.iterations)[:num_rows]
      parts.append(output)
      callbacks.on_predict_batch_end(step, {"outputs": output})
      progress.update(step + 1)
  progress.end()
  callbacks.on_predict_end()
  return np.concatenate(parts)


def one_batch(model, batches, function):
  """Runs one step on all rows; returns logs, or the prediction.

  Called by: every process.
  """
  global_batch = batches.num_rows
  program = model.program(function, global_batch)
  order = batches.order(global_batch)
  inputs = batches.reader(program, order)(0)
  calls.begin_steps()
  result = program.run(inputs, batches.num_rows, model.iterations)
  if function == PREDICT:
    return result[:batches.num_rows]
  if function == TRAIN:
    model.optimizer.iterations += 1
  totals = Totals()
  totals.add(result, batches.num_rows)
  return totals.reduce(program)[0]
