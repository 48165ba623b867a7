"""What one process does otherwise than the rest: arguments, calls, values.

Each function must raise on all of them.
"""

import contextlib
import shutil
import tempfile

import meshkeras as mk
from meshkeras.mesh import host_collectives
from tests.parallel.small_nets import compiled, fit, rank, rows, size


def other_rate_on_the_last_rank():
  rate = 0.2 if rank() == size() - 1 else 0.1
  fit(model=compiled(optimizer=mk.optimizers.SGD(rate)))


def other_rate_after_restore_on_the_last_rank():
  """B23: only some processes had the restored rate."""
  with saved_model() as (_, path):
    momentum = 0.9 if rank() == size() - 1 else 0.5
    compiled(optimizer=mk.optimizers.SGD(0.3, momentum=momentum)).restore(
        path)


@contextlib.contextmanager
def saved_model():
  """Yields (model, path) of a model that has been trained and saved."""
  path = host_collectives.from_chief(
      tempfile.mkdtemp() if rank() == 0 else None)
  model = compiled(optimizer=mk.optimizers.SGD(0.1, momentum=0.5))
  fit(model=model)
  model.save(path)
  try:
    yield model, path
  finally:
    host_collectives.barrier()
    if rank() == 0:
      shutil.rmtree(path)


def load_weights_on_rank_0_alone():
  """B49: whoever calls it waited for ever, or loaded alone."""
  with saved_model() as (model, path):
    if rank() == 0:
      model.load_weights(path)
    fit(model=model)


def get_weights_on_rank_0_alone():
  model = compiled()
  if rank() == 0:
    model.get_weights()
  model.evaluate(*rows(), verbose=0)


def set_weights_on_rank_0_alone():
  model = compiled()
  values = model.get_weights()
  if rank() == 0:
    model.set_weights(values)
  model.predict(rows()[0], verbose=0)


class SaveOnRank0(mk.callbacks.Callback):
  def on_epoch_end(self, epoch, logs=None):
    if rank() == 0:
      self.model.save_weights("never written")


def save_in_a_callback_on_rank_0_alone():
  fit(epochs=2, callbacks=[SaveOnRank0()])


def other_values_for_set_weights_on_the_last_rank():
  model = compiled()
  values = model.get_weights()
  if rank() == size() - 1:
    values[0] = values[0] + 1
  model.set_weights(values)


def other_shape_for_set_weights_on_the_last_rank():
  model = compiled()
  values = model.get_weights()
  if rank() == size() - 1:
    values[0] = values[0].T
  model.set_weights(values)


def no_path_on_the_last_rank():
  compiled().save(None if rank() == size() - 1 else "never written")


def asynchronous_on_the_last_rank_alone():
  compiled().save("never written", asynchronous=rank() == size() - 1)


def strict_on_the_last_rank_alone():
  with saved_model() as (model, path):
    model.load_weights(path, strict=rank() == size() - 1)


def mesh_for_load_model_on_the_last_rank():
  with saved_model() as (_, path):
    mk.load_model(path, mesh="data:%d" % (size() + 1)
                  if rank() == size() - 1 else None)


def saving_after_other_batches_on_the_last_rank():
  fit(epochs=3, callbacks=[mk.callbacks.ModelCheckpoint(
      "never written", save_freq=2 if rank() == size() - 1 else 3)])


def negative_epochs_on_the_last_rank():
  fit(epochs=-1 if rank() == size() - 1 else 1)


def bad_layout_on_the_last_rank():
  if rank() == size() - 1:
    compiled(layout="hiden:data")
  fit()


OF_ONE_RANK = [
    other_rate_on_the_last_rank, other_rate_after_restore_on_the_last_rank,
    load_weights_on_rank_0_alone, get_weights_on_rank_0_alone,
    set_weights_on_rank_0_alone, save_in_a_callback_on_rank_0_alone,
    other_values_for_set_weights_on_the_last_rank,
    other_shape_for_set_weights_on_the_last_rank, no_path_on_the_last_rank,
    asynchronous_on_the_last_rank_alone, strict_on_the_last_rank_alone,
    mesh_for_load_model_on_the_last_rank,
    saving_after_other_batches_on_the_last_rank,
    negative_epochs_on_the_last_rank, bad_layout_on_the_last_rank]
