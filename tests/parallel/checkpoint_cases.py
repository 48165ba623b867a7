"""Checkpoints made and loaded by several processes."""

import os
import shutil
import sys
import time
import zlib

import numpy as np

import meshkeras as mk
from meshkeras import layers
from meshkeras.errors import CheckpointError
from meshkeras.mesh import host_collectives
from meshkeras.mesh.process_sets import current_job
from meshkeras.store import manifest, stages
from tests.parallel import bad_places

MESHES = {
    1: [("data:1", "batch:data")],
    2: [("data:2", "batch:data"), ("model:2", "hidden:model")],
    4: [("data:4", "batch:data"), ("model:4", "hidden:model"),
        ("data:2,model:2", "batch:data,hidden:model")]}
BATCH_SIZE = 8
STEPS_BEFORE, STEPS_AFTER = 3, 5
NUM_SAVES_IN_A_ROW = 20


def shared_directory():
  """Returns where the launches of one test session leave checkpoints."""
  return os.path.join(os.path.dirname(sys.argv[1]), "checkpoints")


def name_of(mesh, layout):
  return ("%s %s" % (mesh, layout)).replace(":", "-").replace(",", "_")


def arrays(num_rows=BATCH_SIZE * (STEPS_BEFORE + STEPS_AFTER)):
  random = np.random.RandomState(5)
  return (random.standard_normal((num_rows, 8)).astype(np.float32),
          random.randint(0, 4, num_rows))


def make(mesh=None, layout=None):
  model = mk.Sequential([
      mk.Input((8,), dims=("in",)),
      layers.Dense(16, dim="hidden", activation="relu"),
      layers.BatchNormalization(), layers.Dropout(0.2),
      layers.Dense(4, dim="classes")])
  model.compile(
      mk.optimizers.Adam(0.01),
      mk.losses.SparseCategoricalCrossentropy(from_logits=True),
      ["accuracy"], mesh=mesh, layout=layout)
  return model


def digest(model):
  """Returns the CRC-32 of all full values, weights and slots."""
  store, found = model.runtime.store, 0
  for name in sorted(store.names()):
    found = zlib.crc32(np.ascontiguousarray(store.gather(name)), found)
  return found


def losses(model, begin, end):
  x, y = arrays()
  return [model.train_on_batch(
      x[i * BATCH_SIZE:(i + 1) * BATCH_SIZE],
      y[i * BATCH_SIZE:(i + 1) * BATCH_SIZE])[0] for i in range(begin, end)]


def save_each(num_processes, directory):
  """Saves at each mesh; returns {mesh's name: (digest, next losses)}."""
  found = {}
  for mesh, layout in MESHES[num_processes]:
    model = make(mesh, layout)
    losses(model, 0, STEPS_BEFORE)
    path = os.path.join(directory, name_of(mesh, layout))
    model.save(path)
    index = manifest.read(path)
    found[name_of(mesh, layout)] = {
        "digest": digest(model),
        "bytes": [sum(v.num_bytes for v in index.variables.values()),
                  sum(index.files.values())],
        "losses": losses(model, STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER)}
  return found


def load_each(num_processes, directory):
  """Loads every checkpoint at each mesh; returns as `save_each`."""
  found = {}
  names = host_collectives.from_chief(sorted(os.listdir(directory)))
  for mesh, layout in MESHES[num_processes]:
    model = make(mesh, layout)
    losses(model, 0, 1)
    for name in names:
      model.restore(os.path.join(directory, name))
      found["%s -> %s" % (name, name_of(mesh, layout))] = {
          "digest": digest(model),
          "losses": losses(model, STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER)}
  return found


def load_model_of(directory, number):
  """Returns (mesh, digest) of load_model without a mesh."""
  name = host_collectives.from_chief(
      sorted(os.listdir(directory))[number])
  model = mk.load_model(os.path.join(directory, name))
  return {"mesh": str(model.runtime.mesh), "digest": digest(model),
          "name": name}


def save_often(directory):
  """Saves to one path again and again, loading after each (B49)."""
  model, path = make(), os.path.join(directory, "often")
  found = []
  for _ in range(NUM_SAVES_IN_A_ROW):
    losses(model, 0, 1)
    before = digest(model)
    model.save(path, asynchronous=bool(model.iterations % 2))
    model.load_weights(path)
    model.restore(path)
    found.append(digest(model) == before)
  files = sorted(os.listdir(path))
  host_collectives.barrier()
  return {"equal": found, "files": len(files)}


class Failing:
  """Breaks a save at a stage, on one rank only."""

  def __init__(self, rank, stage, act):
    self._here = current_job().rank == rank
    self._stage, self._act = stage, act

  def __enter__(self):
    stages.observe(self)

  def __exit__(self, *exception):
    stages.stop_observing(self)

  def __call__(self, stage):
    if self._here and stage == self._stage:
      self._act()


class Vanished:
  """A directory that somebody moves away."""

  means = "moved away"

  def __init__(self, path):
    self._path = path
    self._away = [path + "-0", path + "-1"]

  def __call__(self):
    os.rename(self._path, self._away.pop())

  def undo(self):
    pass


class NoSpace:
  """An index for which there is no more room."""

  means = "an error of the system"

  def __init__(self, path):
    del path

  def __call__(self):
    raise OSError(28, "No space left on device")

  def undo(self):
    pass


# {name: (rank from the last or the first, stage, how it is broken)}
BREAKING = {
    "full disk": (-1, "before_write", bad_places.FullDisk),
    "read-only": (-1, "before_write", bad_places.ReadOnly),
    "vanished": (-1, "before_write", Vanished),
    "index": (0, "before_commit", NoSpace)}


def failing_saves(directory):
  """Saves that fail on one process; returns what each process saw (B44)."""
  model, path = make(), os.path.join(directory, "failing")
  losses(model, 0, 2)
  model.save(path)
  saved = digest(model)
  found = {}
  for name, (rank, stage, breaking) in BREAKING.items():
    target = path if name != "vanished" else os.path.join(directory, "gone")
    broken = breaking(target)
    for asynchronous in (False, True):
      losses(model, 2, 3)
      before, begin = digest(model), time.monotonic()
      with Failing(rank % current_job().size, stage, broken):
        texts = told(
            lambda target=target, asynchronous=asynchronous: save_and_wait(
                model, target, asynchronous))
      if current_job().rank == rank % current_job().size:
        broken.undo()
      means = host_collectives.gather_objects(broken.means)[rank]
      found["%s %s" % (name, asynchronous)] = texts + [
          means, time.monotonic() - begin, digest(model) == before]
      host_collectives.barrier()
  model.restore(path)
  found["loaded"] = digest(model) == saved
  model.save(path)
  found["files"] = len(os.listdir(path))
  host_collectives.barrier()
  return found


def save_and_wait(model, path, asynchronous):
  model.save(path, asynchronous=asynchronous)
  mk.saving.wait_for_saves()


def told(act):
  """Returns [the text of the CheckpointError that `act` raises]."""
  try:
    act()
  except CheckpointError as error:
    return [str(error)]
  return [""]


def damaged(directory):
  """Loads what only one process finds damaged; returns what each saw."""
  model, found = make("model:%d" % current_job().size, "hidden:model"), {}
  path = os.path.join(directory, "damaged")
  model.save(path)
  before = digest(model)
  part = manifest.read(path).variables["dense/kernel"].slices[-1]
  if current_job().is_chief:
    with open(os.path.join(path, part.file), "r+b") as file:
      file.seek(part.offset)
      byte = file.read(1)
      file.seek(part.offset)
      file.write(bytes([byte[0] ^ 1]))
  host_collectives.barrier()
  found["flipped"] = told(lambda: model.load_weights(path))
  found["unchanged"] = digest(model) == before
  found["paths"] = differing_paths(model, directory)
  return found


def differing_paths(model, directory):
  try:
    model.save(os.path.join(directory, "rank%d" % current_job().rank))
  except mk.errors.ProcessSetError as error:
    return str(error)


def slow_commit(directory):
  """Returns whether the index was there when `save` returned."""
  model, path = make(), os.path.join(directory, "slow")
  with Failing(0, "before_commit", lambda: time.sleep(1)):
    model.save(path)
  return os.path.exists(os.path.join(path, manifest.INDEX_NAME))


def resume_in_an_epoch(num_processes, directory):
  """Goes on in the middle of an epoch; returns the joined History."""
  model = make(*MESHES[num_processes][-1])
  x, y = arrays()
  path = os.path.join(directory, "backup")
  copy = os.path.join(os.path.dirname(directory), "copy%d" % num_processes)
  if current_job().is_chief:
    shutil.copytree(path, copy)
  host_collectives.barrier()
  history = model.fit(
      x, y, batch_size=BATCH_SIZE, epochs=3, verbose=0,
      callbacks=[mk.callbacks.BackupAndRestore(copy, save_freq=3),
                 mk.callbacks.ReduceLROnPlateau("loss", 0.5, 1)])
  return {"history": history.history, "epoch": history.epoch,
          "rate": model.optimizer.learning_rate,
          "iterations": model.iterations}


def cases(num_processes):
  """Returns {name: function}; they share a directory with other launches."""
  shared = shared_directory()
  table, scratch = os.path.join(shared, "table"), os.path.join(
      shared, "np%d" % num_processes)
  if current_job().is_chief:
    os.makedirs(scratch, exist_ok=True)
  host_collectives.barrier()
  found = {
      "save": lambda: save_each(num_processes, table),
      "load": lambda: load_each(num_processes, table),
      "load_model": lambda: load_model_of(table, -1),
      "resume": lambda: resume_in_an_epoch(
          num_processes, os.path.join(shared, "resume"))}
  if num_processes == 2:
    found["damaged"] = lambda: damaged(scratch)
    found["slow"] = lambda: slow_commit(scratch)
  else:
    found["often"] = lambda: save_often(scratch)
    found["failing"] = lambda: failing_saves(scratch)
  return found
