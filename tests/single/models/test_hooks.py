"""The hook base class, the list that calls hooks, and the history."""

import json

import pytest

from meshkeras.errors import ArgumentError
from meshkeras.models.hooks import Callback, CallbackList, History

HOOKS = [name for name in vars(Callback) if name.startswith("on_")]
OLD_NAMES = ("on_batch_begin", "on_batch_end")


class Recorder(Callback):
  """Remembers every hook it was called with."""

  def __init__(self):
    self.calls = []


def _record(hook):
  def call(self, *args):
    self.calls.append((hook,) + args)
  return call


for _hook in HOOKS:
  if _hook not in OLD_NAMES:
    setattr(Recorder, _hook, _record(_hook))


def test_hooks_are_those_of_keras():
  assert sorted(HOOKS) == sorted(
      ["on_%s_%s" % (what, when) for when in ("begin", "end")
       for what in ("train", "epoch", "batch", "train_batch", "test",
                    "test_batch", "predict", "predict_batch")])


@pytest.mark.parametrize(
    "hook", [hook for hook in HOOKS if hook not in OLD_NAMES])
def test_list_calls_each_hook_of_each_callback_in_order(hook):
  first, second = Recorder(), Recorder()
  first.calls = second.calls = calls = []
  logs = {"loss": 1.0}
  args = (logs,) if hook.split("_")[1] in (
      "train", "test", "predict") and "batch" not in hook else (3, logs)
  getattr(CallbackList([first, second]), hook)(*args)
  assert calls == [(hook,) + args] * 2
  assert all(call[-1] is logs for call in calls)


def test_base_class_does_nothing():
  callbacks = CallbackList([Callback()])
  callbacks.on_train_begin()
  callbacks.on_train_batch_end(0, {})
  callbacks.on_epoch_end(0)
  assert Callback().get_state() == {}


def test_old_batch_hooks_are_called():
  class Old(Recorder):
    on_train_batch_begin = Callback.on_train_batch_begin
    on_train_batch_end = Callback.on_train_batch_end
    on_batch_begin = _record("on_batch_begin")
    on_batch_end = _record("on_batch_end")

  old = Old()
  callbacks = CallbackList([old])
  callbacks.on_train_batch_begin(2)
  callbacks.on_train_batch_end(2, {"loss": 1.0})
  assert old.calls == [
      ("on_batch_begin", 2, None), ("on_batch_end", 2, {"loss": 1.0})]
  assert callbacks.wants_batch_logs


def test_wants_batch_logs_only_if_a_callback_looks():
  class BatchBegin(Callback):
    def on_train_batch_begin(self, batch, logs=None):
      pass

  class BatchEnd(BatchBegin):
    def on_train_batch_end(self, batch, logs=None):
      pass

  class TestEnd(Callback):
    def on_test_batch_end(self, batch, logs=None):
      pass

  assert not CallbackList([History(), BatchBegin()]).wants_batch_logs
  assert CallbackList([History(), BatchEnd()]).wants_batch_logs
  assert not CallbackList([TestEnd()]).wants_batch_logs
  assert CallbackList([TestEnd()]).wants_test_batch_logs
  assert not CallbackList().wants_test_batch_logs
  on_object = Callback()
  on_object.on_train_batch_end = lambda batch, logs: None
  assert CallbackList([on_object]).wants_batch_logs


def test_list_gives_model_and_params(capsys):
  model = object()
  quiet, loud = Callback(), Callback()
  CallbackList([quiet], model, {"epochs": 5, "is_chief": False})
  CallbackList(loud, model, {"epochs": 5, "is_chief": True})
  assert quiet.model is loud.model is model
  assert quiet.params["epochs"] == 5
  assert not quiet.is_chief and loud.is_chief and Callback().is_chief
  quiet.announce("from the second process")
  loud.announce("from the first process")
  assert capsys.readouterr().out == "from the first process\n"


@pytest.mark.parametrize("callbacks, words", [
    ([History], "the class meshkeras.models.hooks.History"),
    ([History(), 3], "an object of builtins.int"),
    (3, "an object of builtins.int"),
    (["x"], "an object of builtins.str"),
])
def test_what_is_no_callback_is_refused(callbacks, words):
  with pytest.raises(ArgumentError, match=words):
    CallbackList(callbacks)


def test_history_keeps_what_epochs_have():
  history = History()
  history.on_epoch_end(0, {"loss": 2.0})
  history.on_epoch_end(1, {"loss": 1.0, "val_loss": 3.0})
  assert history.epoch == [0, 1]
  assert history.history == {"loss": [2.0, 1.0], "val_loss": [3.0]}


def test_history_continues_from_its_state():
  history = History()
  history.on_epoch_end(0, {"loss": 2.0})
  state = json.loads(json.dumps(history.get_state()))
  history.on_epoch_end(1, {"loss": 9.0})
  resumed = History()
  resumed.set_state(state)
  resumed.on_epoch_end(1, {"loss": 1.0})
  assert resumed.epoch == [0, 1] and resumed.history == {"loss": [2.0, 1.0]}
