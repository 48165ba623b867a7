"""What a user gets wrong, on processes: each call must raise on all."""

import time

import numpy as np

import meshkeras as mk
from meshkeras import layers
from tests.parallel.errors_of_one_rank import OF_ONE_RANK
from tests.parallel.small_nets import (
  CLASSES,
  HIDDEN,
  PIXELS,
  ROWS,
  compiled,
  fit,
  model_of,
  rank,
  rows,
  size,
)

# Meshes and layouts


def mesh_too_large():
  compiled(mesh="data:%d,model:2" % size())


def mesh_too_small():
  compiled(mesh="data:1")


def mesh_of_256():
  compiled(mesh="data:16,model:16")


def mesh_simulated():
  compiled(mesh=mk.Mesh("data:%d" % size(), simulate=True))


def not_divisible():
  compiled(model_of(pixels=9, classes=3), "model:%d" % size(),
           "pixels:model,classes:model")


def rule_without_dimension():
  compiled(mesh="model:%d" % size(), layout="hiden:model")


def rule_without_axis():
  compiled(mesh="model:%d" % size(), layout="hidden:modle")


def two_dims_on_one_axis():
  compiled(mesh="model:%d" % size(), layout="pixels:model,hidden:model")


# Data

def lengths_differ():
  x, y = rows()
  fit(x, y[:-2])


def empty_data():
  x, y = rows()
  fit(x[:0], y[:0])


def empty_predict():
  compiled().predict(rows()[0][:0], verbose=0)


def lengths_differ_on_the_last_rank():
  x, y = rows()
  fit(x, y[:-1] if rank() == size() - 1 else y)


def other_length_on_the_last_rank():
  x, y = rows(ROWS - (rank() == size() - 1))
  fit(x, y)


def label_too_large():
  x, y = rows()
  fit(x, y * 0 + CLASSES)


def one_label_too_large():
  x, y = rows()
  y[-1] = CLASSES       # in the last rank's share
  fit(x, y)


def one_label_negative_on_rank_0():
  x, y = rows()
  if rank() == 0:
    y[0] = -1
  fit(x, y)


def label_in_validation_data():
  x, y = rows()
  fit(validation_data=(x, y * 0 + CLASSES))


def wrong_shape():
  x, y = rows()
  fit(np.concatenate([x, x], axis=1), y)


def wrong_shape_on_the_last_rank():
  x, y = rows()
  fit(x[:, :-1] if rank() == size() - 1 else x, y)


def wrong_dtype():
  x, y = rows()
  fit(x.astype(str), y)


def wrong_target_shape():
  x, _ = rows()
  fit(x, np.zeros((ROWS, CLASSES)))


def no_targets():
  fit(rows()[0], None)


# Words

def unknown_keyword_of_fit():
  fit(epoch=3)


def unknown_keyword_of_compile():
  compiled(optimiser="sgd")


def unknown_keyword_of_a_layer():
  layers.Dense(10, activaton="relu")


def unknown_loss():
  compiled(loss="mean_square_error")


def bad_batch_size():
  fit(batch_size=0)


# Order

def fit_before_compile():
  model_of().fit(*rows())


def evaluate_before_compile():
  model_of().evaluate(*rows())


def predict_before_compile():
  model_of().predict(rows()[0])


def weights_before_compile():
  model_of().get_weights()


def fit_without_optimizer():
  fit(model=compiled(optimizer=None))


# Processes that differ (B27)

def extra_layer_on_rank_0():
  middle = [layers.Dense(HIDDEN, dim="middle")] if rank() == 0 else []
  fit(model=compiled(mk.Sequential(
      [mk.Input((PIXELS,), dims=("pixels",)),
       layers.Dense(HIDDEN, dim="hidden")] + middle + [
           layers.Dense(CLASSES, dim="classes")])))


def other_order_on_the_last_rank():
  sizes = [("wide", 32), ("slim", 8)]
  if rank() == size() - 1:
    sizes.reverse()
  fit(model=compiled(mk.Sequential(
      [mk.Input((PIXELS,), dims=("pixels",))]
      + [layers.Dense(units, name=name, dim=name) for name, units in sizes]
      + [layers.Dense(CLASSES, dim="classes")])))


def other_names_on_the_last_rank():
  names = ["one", "two"]
  if rank() == size() - 1:
    names.reverse()
  fit(model=compiled(mk.Sequential(
      [mk.Input((PIXELS,), dims=("pixels",))]
      + [layers.Dense(PIXELS, name=name, dim=name) for name in names]
      + [layers.Dense(CLASSES, dim="classes")])))


def other_size_on_the_last_rank():
  hidden = HIDDEN * 2 if rank() == size() - 1 else HIDDEN
  fit(model=compiled(model_of(hidden=hidden)))


def other_classes_on_the_last_rank():
  classes = CLASSES + 1 if rank() == size() - 1 else CLASSES
  compiled(model_of(classes=classes)).predict(rows()[0], 4, verbose=0)


def other_layout_on_the_last_rank():
  layout = "" if rank() == size() - 1 else "batch:data"
  fit(model=compiled(layout=layout))


def other_mesh_on_the_last_rank():
  mesh = "data:%d" % size()
  if rank() == size() - 1:
    mesh = "data:2,model:%d" % (size() // 2)
  fit(model=compiled(mesh=mesh))


def other_seed_on_the_last_rank():
  mk.set_random_seed(5 if rank() == size() - 1 else 4)
  try:
    fit()
  finally:
    mk.set_random_seed(0)


def other_batch_size_on_the_last_rank():
  fit(batch_size=3 if rank() == size() - 1 else 4)


def more_epochs_on_the_last_rank():
  fit(epochs=3 if rank() == size() - 1 else 2)


RAISING = [
    mesh_too_large, mesh_too_small, mesh_of_256, mesh_simulated,
    not_divisible, rule_without_dimension, rule_without_axis,
    two_dims_on_one_axis, lengths_differ, empty_data, empty_predict,
    lengths_differ_on_the_last_rank, other_length_on_the_last_rank,
    label_too_large, one_label_too_large, one_label_negative_on_rank_0,
    label_in_validation_data, wrong_shape, wrong_shape_on_the_last_rank,
    wrong_dtype, wrong_target_shape, no_targets, unknown_keyword_of_fit,
    unknown_keyword_of_compile, unknown_keyword_of_a_layer, unknown_loss,
    bad_batch_size, fit_before_compile, evaluate_before_compile,
    predict_before_compile, weights_before_compile, fit_without_optimizer,
    extra_layer_on_rank_0, other_order_on_the_last_rank,
    other_names_on_the_last_rank, other_size_on_the_last_rank,
    other_classes_on_the_last_rank, other_layout_on_the_last_rank,
    other_mesh_on_the_last_rank, other_seed_on_the_last_rank,
    other_batch_size_on_the_last_rank, more_epochs_on_the_last_rank,
] + OF_ONE_RANK


def outcome(call):
  """Returns {"error", "message", "seconds"} of a call; error None if none."""
  begin = time.monotonic()
  try:
    call()
    error = None
  except Exception as caught:  # whatever it is, the test says what it wants
    error = caught
  return {
      "error": None if error is None else type(error).__name__,
      "message": str(error), "seconds": time.monotonic() - begin}


def still_works():
  """A fit after all these errors, in the same processes."""
  return fit(epochs=2).history["loss"]


def cases(num_processes):
  if num_processes == 1:
    return {}
  found = {call.__name__: (lambda call=call: outcome(call))
           for call in RAISING}
  found["still works"] = still_works
  return found
