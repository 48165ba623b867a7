"""Each callback on a model that only has what the callback touches."""

import inspect
import json
import math
import types

import pytest

from meshkeras.callbacks import (
  CSVLogger,
  EarlyStopping,
  LambdaCallback,
  LearningRateScheduler,
  ModelCheckpoint,
  ReduceLROnPlateau,
  TerminateOnNaN,
)
from meshkeras.callbacks.monitor import Monitor
from meshkeras.errors import ArgumentError
from meshkeras.models.hooks import CallbackList, History


class FakeModel:
  """Its weights are the number of the epoch that just ended."""

  def __init__(self, learning_rate=1.0):
    self.stop_training = False
    self.optimizer = types.SimpleNamespace(learning_rate=learning_rate)
    self.weights = None

  def get_weights(self):
    return [self.weights]

  def set_weights(self, weights):
    self.weights = weights[0]


def _fit(callback, values, name="val_loss", model=None, first_epoch=0,
         is_chief=True):
  """Runs the hooks of a fit whose epochs end with `values`."""
  model = model or FakeModel()
  history = History()
  callbacks = CallbackList([callback, history], model,
                           {"is_chief": is_chief})
  callbacks.on_train_begin()
  for epoch, value in enumerate(values, first_epoch):
    callbacks.on_epoch_begin(epoch)
    model.weights = epoch
    callbacks.on_epoch_end(epoch, {"loss": 0.0, name: value})
    if model.stop_training:
      break
  callbacks.on_train_end()
  return model, history


@pytest.mark.parametrize("name, better, worse", [
    ("loss", 1.0, 2.0), ("val_loss", 1.0, 2.0), ("val_mse", 1.0, 2.0),
    ("mean_squared_error", 1.0, 2.0), ("val_accuracy", 2.0, 1.0),
    ("acc", 2.0, 1.0), ("sparse_top_k_categorical_accuracy", 2.0, 1.0),
    ("val_auc_1", 2.0, 1.0)])
def test_monitor_knows_the_usual_names(name, better, worse):
  monitor = Monitor("here", name)
  assert monitor.update(worse) and monitor.update(better)
  assert not monitor.update(worse) and monitor.best == better


def test_monitor_gain_below_min_delta_is_none():
  monitor = Monitor("here", "loss", min_delta=0.5)
  assert monitor.update(2.0)
  assert not monitor.update(1.5) and monitor.best == 2.0
  assert monitor.update(1.25)


def test_monitor_nan_is_never_best():
  monitor = Monitor("here", "loss")
  assert not monitor.update(math.nan) and monitor.best is None
  assert monitor.update(math.inf) and monitor.update(3.0)
  assert not monitor.update(math.nan)


@pytest.mark.parametrize("name, mode, words", [
    ("val_height", "auto", "monitor='val_height' with mode='auto'"),
    ("loss", "low", "mode='low'")])
def test_monitor_refuses_what_it_cannot_judge(name, mode, words):
  with pytest.raises(ArgumentError, match=words):
    EarlyStopping(name, mode=mode)
  assert Monitor("here", name, mode="min").update(1.0)


def test_monitor_of_absent_name_is_an_error_with_near_names():
  with pytest.raises(ArgumentError, match="did you mean 'val_loss'"):
    EarlyStopping("val_los", mode="min").on_epoch_end(
        0, {"loss": 1.0, "val_loss": 1.0})


def test_epoch_without_validation_warns_once_and_decides_nothing():
  stopping = EarlyStopping(patience=0)
  stopping.on_train_begin()
  with pytest.warns(UserWarning, match="no 'val_loss'") as warned:
    stopping.on_epoch_end(0, {"loss": 1.0})
    stopping.on_epoch_end(1, {"loss": 1.0})
  assert len(warned) == 1 and stopping.best is None


@pytest.mark.parametrize("patience, stopped_epoch", [(0, 2), (1, 2), (2, 3),
                                                     (9, 0)])
def test_early_stopping_waits_for_patience(patience, stopped_epoch):
  stopping = EarlyStopping(patience=patience)
  model, history = _fit(stopping, [3.0, 2.0, 2.5, 2.0, 1.9, 2.0])
  assert stopping.stopped_epoch == stopped_epoch
  assert model.stop_training == bool(stopped_epoch)
  assert len(history.epoch) == (stopped_epoch + 1 if stopped_epoch else 6)


def test_early_stopping_puts_the_best_weights_back(capsys):
  stopping = EarlyStopping(
      "val_accuracy", patience=2, restore_best_weights=True, verbose=1)
  model, _ = _fit(stopping, [0.1, 0.6, 0.5, 0.4, 0.9], "val_accuracy")
  assert model.weights == 1 and stopping.best_epoch == 1
  assert stopping.best == 0.6
  assert capsys.readouterr().out == (
      "Epoch 4: early stopping\nWeights of epoch 2 put back\n")


def test_early_stopping_baseline_must_be_beaten():
  stopping = EarlyStopping(patience=2, baseline=1.0)
  _fit(stopping, [3.0, 2.0, 1.5, 1.4])
  # Gains that stay above the baseline do not restart the wait.
  assert stopping.wait == 4 and stopping.stopped_epoch == 0
  _fit(stopping, [3.0, 2.0, 2.0, 0.5])
  assert stopping.stopped_epoch == 2


def test_early_stopping_skips_the_first_epochs():
  stopping = EarlyStopping(start_from_epoch=3)
  _fit(stopping, [1.0, 9.0, 9.0, 5.0, 4.0, 4.0])
  assert stopping.stopped_epoch == 5 and stopping.best == 4.0


def test_early_stopping_second_fit_starts_anew():
  stopping = EarlyStopping()
  _fit(stopping, [1.0, 2.0])
  _, history = _fit(stopping, [5.0, 4.0, 3.0])
  assert len(history.epoch) == 3 and stopping.best == 3.0


def test_early_stopping_continues_from_its_state():
  values = [3.0, 2.0, 2.5, 2.4, 2.3]
  whole = EarlyStopping(patience=3)
  _fit(whole, values)
  first, second = EarlyStopping(patience=3), EarlyStopping(patience=3)
  _fit(first, values[:3])
  state = json.loads(json.dumps(first.get_state()))
  model = FakeModel()
  callbacks = CallbackList([second], model)
  callbacks.on_train_begin()
  second.set_state(state)
  for epoch, value in enumerate(values[3:], 3):
    callbacks.on_epoch_end(epoch, {"val_loss": value})
  assert second.get_state() == whole.get_state()
  assert second.stopped_epoch == 4 and model.stop_training


def test_state_before_the_first_epoch_is_json():
  for callback in (EarlyStopping(), ReduceLROnPlateau(), TerminateOnNaN()):
    state = callback.get_state()
    assert json.loads(json.dumps(state, allow_nan=False)) == state


def test_reduce_lr_falls_cools_down_and_stays_above_the_least(capsys):
  plateau = ReduceLROnPlateau(
      factor=0.5, patience=2, cooldown=2, min_lr=0.2, verbose=1)
  model, history = _fit(plateau, [1.0] * 12)
  # Idle epochs 1 and 2 make it fall after 2, then again after 5 and 8.
  assert history.history["learning_rate"] == (
      [1.0] * 3 + [0.5] * 3 + [0.25] * 3 + [0.2] * 3)
  assert model.optimizer.learning_rate == 0.2
  assert capsys.readouterr().out.splitlines()[0] == (
      "Epoch 3: learning rate falls to 0.5")


def test_reduce_lr_without_plateau_keeps_the_rate():
  model, _ = _fit(ReduceLROnPlateau(patience=1), [3.0, 2.0, 1.0])
  assert model.optimizer.learning_rate == 1.0


@pytest.mark.parametrize("factor", [0, 1.0, 2])
def test_reduce_lr_refuses_a_factor_that_does_not_reduce(factor):
  with pytest.raises(ArgumentError, match="factor=%r" % factor):
    ReduceLROnPlateau(factor=factor)


@pytest.mark.parametrize("schedule", [
    lambda epoch, rate: rate * 0.5, lambda epoch: 0.5 ** (epoch + 1)])
def test_learning_rate_scheduler_sets_and_logs_the_rate(schedule, capsys):
  _, history = _fit(LearningRateScheduler(schedule, verbose=1), [1.0] * 3)
  assert history.history["learning_rate"] == [0.5, 0.25, 0.125]
  assert "Epoch 2: learning rate 0.25\n" in capsys.readouterr().out


@pytest.mark.parametrize("schedule, words", [
    (0.1, "schedule=0.1"),
    (lambda epoch: None, "returned None for epoch 0"),
    (lambda epoch: math.nan, "returned nan for epoch 0")])
def test_learning_rate_scheduler_refuses_no_number(schedule, words):
  with pytest.raises(ArgumentError, match=words):
    _fit(LearningRateScheduler(schedule), [1.0])


def test_learning_rate_scheduler_passes_on_the_schedules_own_error():
  def schedule(epoch):
    return 1.0 + "a"
  with pytest.raises(TypeError, match="unsupported operand"):
    _fit(LearningRateScheduler(schedule), [1.0])


@pytest.mark.parametrize("loss, stops", [
    (1.0, False), (math.nan, True), (math.inf, True), (None, False)])
def test_terminate_on_nan(loss, stops):
  callback, model = TerminateOnNaN(), FakeModel()
  callbacks = CallbackList([callback], model)
  assert callbacks.wants_batch_logs
  callbacks.on_train_batch_end(7, {} if loss is None else {"loss": loss})
  assert model.stop_training == stops


def test_lambda_callback_runs_its_functions_only():
  seen = []
  callback = LambdaCallback(
      on_epoch_end=lambda epoch, logs: seen.append(epoch),
      on_train_end=None)
  _fit(callback, [1.0, 2.0])
  assert seen == [0, 1]
  assert not CallbackList([callback]).wants_batch_logs
  assert CallbackList([LambdaCallback(
      on_train_batch_end=lambda batch, logs: None)]).wants_batch_logs


@pytest.mark.parametrize("hooks, words", [
    ({"on_epoch_ende": print}, "did you mean 'on_epoch_end'"),
    ({"on_epoch_end": 3}, "on_epoch_end=3")])
def test_lambda_callback_refuses_what_is_no_hook(hooks, words):
  with pytest.raises(ArgumentError, match=words):
    LambdaCallback(**hooks)


def test_csv_logger_writes_columns_by_name(tmp_path):
  path = tmp_path / "log.csv"
  _fit(CSVLogger(path), [1.5, 0.5], "accuracy")
  assert path.read_text() == (
      "epoch,accuracy,loss\n0,1.5,0.0\n1,0.5,0.0\n")


def test_csv_logger_line_is_there_before_the_next_epoch(tmp_path):
  path = tmp_path / "log.csv"
  logger = CSVLogger(path, separator=";")
  logger.on_train_begin()
  logger.on_epoch_end(0, {"loss": 1.0})
  assert path.read_text() == "epoch;loss\n0;1.0\n"


def test_csv_logger_adds_a_column_that_comes_later(tmp_path):
  path = tmp_path / "log.csv"
  logger = CSVLogger(path)
  logger.on_train_begin()
  logger.on_epoch_end(0, {"loss": 1.0})
  logger.on_epoch_end(1, {"loss": 0.5, "val_loss": 2.0})
  logger.on_epoch_end(2, {"loss": 0.25})
  assert path.read_text() == (
      "epoch,loss,val_loss\n0,1.0,NA\n1,0.5,2.0\n2,0.25,NA\n")


def test_csv_logger_appends_or_replaces(tmp_path):
  path = tmp_path / "log.csv"
  _fit(CSVLogger(path), [1.0], "accuracy")
  _fit(CSVLogger(path, append=True), [2.0], "accuracy", first_epoch=1)
  assert path.read_text() == (
      "epoch,accuracy,loss\n0,1.0,0.0\n1,2.0,0.0\n")
  _fit(CSVLogger(path), [3.0], "accuracy")
  assert path.read_text() == "epoch,accuracy,loss\n0,3.0,0.0\n"


def test_csv_logger_on_another_process_writes_nothing(tmp_path):
  path = tmp_path / "log.csv"
  _fit(CSVLogger(path), [1.0], is_chief=False)
  assert not path.exists()


def test_csv_logger_refuses_a_path_it_cannot_write(tmp_path):
  with pytest.raises(ArgumentError, match="absent.*log.csv"):
    _fit(CSVLogger(tmp_path / "absent" / "log.csv"), [1.0])
  other = tmp_path / "other.csv"
  other.write_text("name,age\nx,3\n")
  with pytest.raises(ArgumentError, match="first column is 'name'"):
    _fit(CSVLogger(other, append=True), [1.0])
  assert other.read_text() == "name,age\nx,3\n"


def test_model_checkpoint_takes_keras_arguments_in_keras_order():
  assert list(inspect.signature(ModelCheckpoint).parameters) == [
      "filepath", "monitor", "verbose", "save_best_only",
      "save_weights_only", "mode", "save_freq", "initial_value_threshold",
      "options"]


def test_model_checkpoint_refuses_what_it_does_not_accept():
  for options, told in (
      ({"mode": "most"}, "mode='most' given; accepted is 'auto', 'min' or"),
      ({"save_freq": 0}, "save_freq=0 given; accepted is 'epoch' or a number"),
      ({"keep": 0}, "keep=0 given; accepted is a whole number of at least 1"),
      ({"keep_best": 2}, "keep_best=2 given without keep"),
      ({"keeps": 2}, "keyword 'keeps' given; accepted beside Keras's are "
       "asynchronous, keep, keep_best.")):
    with pytest.raises(ArgumentError) as caught:
      ModelCheckpoint("saved", **options)
    assert "ModelCheckpoint: " + told in str(caught.value)
