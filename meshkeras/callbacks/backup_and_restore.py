"""A fit that goes on by itself after its job has been started again."""

from meshkeras.errors import ArgumentError
from meshkeras.models.hooks import Callback
from meshkeras.saving import delete_checkpoint, wait_for_saves
from meshkeras.saving.checkpoints import contents_of, holds_index
from meshkeras.store.paths import checked_path


class BackupAndRestore(Callback):
  """Keeps one checkpoint of a fit, and goes on from it when there is one.

  Run the same script again, on any number of processes: the fit begins at
  the step after the last backup, with weights, optimizer, callbacks' state
  and History as they were.

  Args:
    backup_dir: directory of the backup, a checkpoint that each save
      replaces in one act.
    save_freq: "epoch", or a number of batches.
    delete_checkpoint: whether the backup is removed when the fit has ended
      well.
    asynchronous: write while training goes on.

  Raises:
    ArgumentError: save_freq is neither.
    CheckpointError: the backup is damaged (remove it to begin anew), does
      not suit the model or the data, or a save has failed; on every process.
  """

  def __init__(self, backup_dir, save_freq="epoch", *,
               delete_checkpoint=True, asynchronous=False):
    counts = isinstance(save_freq, int) and not isinstance(save_freq, bool)
    if save_freq != "epoch" and not (counts and save_freq >= 1):
      raise ArgumentError(
          "BackupAndRestore: save_freq=%r given; accepted is 'epoch' or a "
          "number of batches, at least 1. Change it." % (save_freq,))
    self.backup_dir = checked_path(
        "BackupAndRestore", "backup_dir", backup_dir)
    self.save_freq = save_freq
    self.delete_checkpoint = delete_checkpoint
    self.asynchronous = asynchronous
    self._batches = 0

  def get_state(self):
    return {"batches": self._batches, "stopped": self.model.stop_training}

  def set_state(self, state):
    self._batches = state["batches"]
    self.model.stop_training = state["stopped"]

  def on_train_begin(self, logs=None):
    self._batches = 0
    # A damaged one is an error of restore, not a reason to begin anew.
    if holds_index(self.backup_dir):
      self.model.restore(self.backup_dir)

  def save_after_batch(self, batch):
    if self.save_freq == "epoch":
      return
    self._batches += 1
    if self._batches >= self.save_freq:
      self._batches = 0
      self._save()

  def save_after_epoch(self, epoch, logs=None):
    if self.save_freq == "epoch":
      self._save()

  def _save(self):
    self.model.save(self.backup_dir, architecture=False,
                    asynchronous=self.asynchronous)

  def on_train_end(self, logs=None):
    wait_for_saves()
    # Not a whole model, which another callback has saved there.
    if self.delete_checkpoint and contents_of(self.backup_dir) == "training":
      delete_checkpoint(self.backup_dir)
