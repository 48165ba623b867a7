"""Going on from a checkpoint: the numbers of a run that never stopped."""

import os

import numpy as np
import pytest

import meshkeras as mk
from meshkeras.callbacks import (
  BackupAndRestore,
  Callback,
  EarlyStopping,
  LearningRateScheduler,
  ModelCheckpoint,
  ReduceLROnPlateau,
)
from meshkeras.errors import ArgumentError, CheckpointError
from meshkeras.saving import latest_checkpoint
from tests.single.saving import small_model

EPOCHS = 4


class Stop(Callback):
  """Ends a fit by an error, as a kill would, at a step or an epoch."""

  def __init__(self, iteration=None, epoch=None):
    self.iteration, self.epoch = iteration, epoch

  def on_train_batch_end(self, batch, logs=None):
    if self.model.iterations == self.iteration:
      raise KeyboardInterrupt

  def on_epoch_begin(self, epoch, logs=None):
    if epoch == self.epoch:
      raise KeyboardInterrupt


def callbacks():
  return [
      LearningRateScheduler(lambda epoch, rate: rate * 0.9),
      EarlyStopping("loss", patience=30),
      ReduceLROnPlateau("accuracy", patience=1, factor=0.5)]


@pytest.fixture(scope="module")
def whole():
  """(History, variables) of a run that was never stopped."""
  model = small_model.make()
  history = small_model.fit(model, EPOCHS, callbacks())
  return history, small_model.variables(model)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("save_freq, iteration, epoch", [
    ("epoch", None, 2), ("epoch", 13, None), (3, 13, None), (5, 11, None)])
def test_backup_goes_on_to_the_numbers_of_an_unbroken_run(
    whole, tmp_path, save_freq, iteration, epoch, asynchronous):
  history, variables = whole
  def backup():
    return BackupAndRestore(tmp_path / "backup", save_freq,
                            asynchronous=asynchronous)
  with pytest.raises(KeyboardInterrupt):
    small_model.fit(small_model.make(), EPOCHS,
                    [backup()] + callbacks() + [Stop(iteration, epoch)])
  model = small_model.make()
  again = small_model.fit(model, EPOCHS, [backup()] + callbacks())
  small_model.assert_equal_history(history, again)
  small_model.assert_equal_variables(variables, small_model.variables(model))
  assert model.iterations == EPOCHS * 5
  assert not (tmp_path / "backup").exists()


def test_damaged_backup_is_an_error_and_stays(tmp_path):
  backup = tmp_path / "backup"
  with pytest.raises(KeyboardInterrupt):
    small_model.fit(small_model.make(), EPOCHS,
                    [BackupAndRestore(backup), Stop(None, 1)])
  shard, = backup.glob("*.safetensors")
  os.truncate(shard, shard.stat().st_size - 1)
  before = sorted(backup.iterdir())
  with pytest.raises(CheckpointError) as caught:
    small_model.fit(small_model.make(), EPOCHS, [BackupAndRestore(backup)])
  assert "%s: " % shard in str(caught.value)
  assert "bytes expected" in str(caught.value)
  assert sorted(backup.iterdir()) == before


@pytest.mark.parametrize("mesh, layout", [
    ("d:2", "batch:d"), ("d:2,m:2", "batch:d,hidden:m")])
def test_resume_at_another_mesh_in_the_middle_of_an_epoch(
    whole, tmp_path, mesh, layout):
  history, variables = whole
  path = str(tmp_path / "saved")
  first = ModelCheckpoint(path, save_freq=13, monitor="loss")
  with pytest.raises(KeyboardInterrupt):
    small_model.fit(small_model.make(mesh, layout), EPOCHS,
                    callbacks() + [first, Stop(14)])
  model = small_model.make()
  model.restore(path)
  again = small_model.fit(model, EPOCHS, callbacks())
  small_model.assert_equal_history(history, again, 1e-5)
  small_model.assert_equal_variables(
      variables, small_model.variables(model), 1e-5)


def test_each_row_is_seen_once_over_the_two_parts_of_an_epoch(tmp_path):
  seen = []

  class Rows(Callback):
    """Notes the rows of each step, by the order that the loop follows."""

    def save_after_batch(self, batch):
      loop = self.model.fit_loop
      position = loop.state()
      order = mk.data.RowOrder(
          small_model.NUM_ROWS, small_model.BATCH_SIZE, mk.data.permutation(
              small_model.NUM_ROWS, self.model.runtime.seed,
              position["epoch"]))
      seen.extend(order.rows_of_step(batch).tolist())

  path = str(tmp_path / "saved")
  with pytest.raises(KeyboardInterrupt):
    small_model.fit(small_model.make("d:4", "batch:d"), 1, [
        ModelCheckpoint(path, "loss", save_freq=2), Rows(), Stop(4)])
  # The third step came after the checkpoint and is done again.
  seen[:] = seen[:2 * small_model.BATCH_SIZE]
  model = small_model.make("d:2", "batch:d")
  model.restore(path)
  small_model.fit(model, 1, [Rows()])
  assert sorted(seen) == list(range(small_model.NUM_ROWS))


def test_resume_with_other_data_or_seed_is_an_error(tmp_path):
  path = str(tmp_path / "saved")
  with pytest.raises(KeyboardInterrupt):
    small_model.fit(small_model.make(), 2, [
        ModelCheckpoint(path, "loss", save_freq=2), Stop(3)])
  model = small_model.make()
  model.restore(path)
  x, y = small_model.arrays(50)
  with pytest.raises(CheckpointError, match="num_rows=40.*num_rows=50"):
    model.fit(x, y, batch_size=8, verbose=0)
  model.restore(path)
  with pytest.raises(CheckpointError, match="initial_epoch=1 .* epoch 0"):
    small_model.fit(model, 2, initial_epoch=1)
  model.runtime.seed = 7
  with pytest.raises(CheckpointError, match="set_random_seed.0."):
    model.restore(path)
  other = small_model.make(optimizer=mk.optimizers.SGD(0.1))
  with pytest.raises(CheckpointError, match="momentum") as caught:
    other.restore(path)
  assert "compile it with the same optimizer" in str(caught.value)


@pytest.mark.parametrize("metrics, words", [
    ([], r"metrics=\[\]"), (["accuracy", "mse"], "'accuracy', 'mse'")])
def test_resume_in_an_epoch_with_other_metrics_is_an_error(
    tmp_path, metrics, words):
  """The sums of one metric went on as those of another."""
  path = str(tmp_path / "saved")
  with pytest.raises(KeyboardInterrupt):
    small_model.fit(small_model.make(), 2, [
        ModelCheckpoint(path, "loss", save_freq=2), Stop(3)])
  model = small_model.make()
  model.compile(
      mk.optimizers.Adam(0.01), "mse" if "mse" in metrics else model.loss,
      metrics, mesh=mk.Mesh("", simulate=True), layout="")
  model.restore(path)
  with pytest.raises(CheckpointError,
                     match=r"metrics=\['accuracy'\].*" + words):
    x, y = small_model.arrays()
    y = np.eye(4)[y] if "mse" in metrics else y
    model.fit(x, y, batch_size=small_model.BATCH_SIZE, epochs=2, verbose=0)


class Scalars(Callback):
  """Its state is a NumPy number."""

  def __init__(self):
    self.seen = np.float32(0.5)

  def get_state(self):
    return {"seen": self.seen, "list": [np.int64(3)]}

  def set_state(self, state):
    self.restored = state


def test_state_of_numpy_numbers_comes_back_as_numbers(tmp_path):
  with pytest.raises(KeyboardInterrupt):
    small_model.fit(small_model.make(), 2, [
        BackupAndRestore(tmp_path / "backup"), Scalars(), Stop(None, 1)])
  again = Scalars()
  small_model.fit(small_model.make(), 2, [
      BackupAndRestore(tmp_path / "backup"), again])
  assert again.restored == {"seen": 0.5, "list": [3]}


def test_state_that_cannot_be_kept_is_told_with_the_callback(tmp_path):
  callback = Scalars()
  callback.seen = object()
  with pytest.raises(ArgumentError, match="Scalars: get_state: a value of "):
    small_model.fit(small_model.make(), 2, [
        BackupAndRestore(tmp_path / "backup"), callback])


def test_backup_does_not_remove_what_another_callback_has_saved(tmp_path):
  path = tmp_path / "both"
  small_model.fit(small_model.make(), 1, [
      BackupAndRestore(path), ModelCheckpoint(path, "loss")])
  assert mk.load_model(path).iterations == 5


def test_schedule_goes_on_at_its_position(tmp_path):
  def schedule(iteration):
    return 0.01 / (1 + iteration)

  def make():
    return small_model.make(optimizer=mk.optimizers.SGD(schedule))

  unbroken = small_model.fit(make(), 3)
  model = make()
  small_model.fit(model, 1)
  model.save(str(tmp_path / "saved"), architecture=False)
  model = make()
  model.restore(str(tmp_path / "saved"))
  assert model.optimizer.learning_rate == pytest.approx(0.01 / 6)
  small_model.assert_equal_history(unbroken, small_model.fit(model, 3))


def test_best_checkpoint_is_not_overwritten_after_a_restart(tmp_path):
  class Logs(Callback):
    """Puts made-up scores in the logs, before ModelCheckpoint sees them."""

    def __init__(self, *scores):
      self.scores = scores

    def on_epoch_end(self, epoch, logs=None):
      logs["score"] = self.scores[epoch]

  best, all_of_them = str(tmp_path / "best"), str(tmp_path / "{epoch}")

  def saving():
    return [ModelCheckpoint(best, "score", save_best_only=True, mode="max"),
            ModelCheckpoint(all_of_them, "loss")]

  small_model.fit(small_model.make(), 2, [Logs(0.5, 0.6)] + saving())
  model = mk.load_model(latest_checkpoint(tmp_path))
  # As Keras's users go on; and at the very place.
  small_model.fit(model, 3, [Logs(0, 0, 0.58)] + saving(), initial_epoch=2)
  assert mk.load_model(best).iterations == 10
  model.restore(str(tmp_path / "2"))
  small_model.fit(model, 3, [Logs(0, 0, 0.61)] + saving())
  assert mk.load_model(best).iterations == 15
  # Another training starts afresh.
  small_model.fit(mk.load_model(best), 1, [Logs(0.1)] + saving())
  assert mk.load_model(best).iterations == 20


def test_keep_leaves_the_newest_and_the_best(tmp_path):
  class Logs(Callback):
    def on_epoch_end(self, epoch, logs=None):
      logs["score"] = [0.3, 0.9, 0.2, 0.8, 0.1, 0.4][epoch]

  for asynchronous in (False, True):
    folder = tmp_path / str(asynchronous)
    folder.mkdir()
    (folder / "mine").mkdir()
    small_model.fit(small_model.make(), 6, [Logs(), ModelCheckpoint(
        folder / "{epoch:02d}-{score:.1f}", "score", mode="max", keep=2,
        keep_best=1, save_weights_only=True, asynchronous=asynchronous)])
    assert sorted(path.name for path in folder.iterdir()) == [
        "02-0.9", "05-0.1", "06-0.4", "mine"]
    assert latest_checkpoint(folder) == str(folder / "06-0.4")


def test_early_stopped_fit_stays_stopped(tmp_path):
  def stopping():
    return [EarlyStopping("loss", patience=0, min_delta=100),
            BackupAndRestore(tmp_path / "backup", delete_checkpoint=False)]

  first = small_model.fit(small_model.make(), 5, stopping())
  again = small_model.fit(small_model.make(), 5, stopping())
  assert first.epoch == again.epoch == [0, 1]
