"""Checkpoints at 1, 2 and 4 processes: every mesh to every other, failures.

The launches leave checkpoints in one directory: first this process, then 2
processes, then 4, then 2 again for what the 4 have saved.
"""

import json
import os

import numpy as np
import pytest

import meshkeras as mk
from tests.parallel import checkpoint_cases, launcher

SUITE = "checkpoint"
PROCESSES = (2, 4)


class Stop(mk.callbacks.Callback):
  """Ends a fit in the middle of its second epoch."""

  def save_after_batch(self, batch):
    if self.model.iterations == 13:
      raise KeyboardInterrupt


def fit(backup, *callbacks):
  x, y = checkpoint_cases.arrays()
  model = checkpoint_cases.make()
  history = model.fit(
      x, y, batch_size=checkpoint_cases.BATCH_SIZE, epochs=3, verbose=0,
      callbacks=[mk.callbacks.ReduceLROnPlateau("loss", 0.5, 1)] + (
          [mk.callbacks.BackupAndRestore(backup, 3)] if backup else []) + list(
              callbacks))
  return history, model


@pytest.fixture(scope="session")
def here(tmp_path_factory):
  """What this process saves before the launches, and unbroken numbers."""
  mk.set_random_seed(0)  # that of the launches
  shared = tmp_path_factory.getbasetemp() / "checkpoints"
  (shared / "table").mkdir(parents=True)
  saved = checkpoint_cases.save_each(1, str(shared / "table"))
  history, model = fit(None)
  with pytest.raises(KeyboardInterrupt):
    fit(shared / "resume" / "backup", Stop())
  return {"saved": saved, "history": history, "model": model,
          "directory": shared}


@pytest.fixture
def at(here, by_rank):
  """As `by_rank`, once the directory is there; the smaller launch first."""
  def values(num_processes, case):
    for smaller in PROCESSES:
      if smaller < num_processes:
        by_rank(smaller, "save")
    return by_rank(num_processes, case)
  return values


def agreed(values):
  """Returns the one value that all ranks have."""
  assert all(value == values[0] for value in values)
  return values[0]


def saved_by(at, here, *processes):
  found = dict(here["saved"])
  for num_processes in processes:
    found.update(agreed(at(num_processes, "save")))
  return found


def check_loaded(loaded, saved, meshes, exactly_at):
  """Compares {"saved -> loaded": ...} with what was saved."""
  assert sorted(loaded) == sorted(
      "%s -> %s" % (name, checkpoint_cases.name_of(*mesh))
      for name in saved for mesh in meshes)
  for key, found in loaded.items():
    name, target = key.split(" -> ")
    assert found["digest"] == saved[name]["digest"], key
    if name == target and exactly_at:
      assert found["losses"] == saved[name]["losses"], key
    np.testing.assert_allclose(
        found["losses"], saved[name]["losses"], rtol=1e-6, err_msg=key)


def test_every_checkpoint_loads_at_every_mesh(at, here, tmp_path):
  loaded = agreed(at(2, "load"))
  check_loaded(loaded, saved_by(at, here, 2), checkpoint_cases.MESHES[2],
               True)
  saved = saved_by(at, here, 2, 4)
  # Horovod joins small sums by when they are ready, and with 4 addends the
  # joining decides their order: two runs of one script differ in last bits.
  check_loaded(agreed(at(4, "load")), saved, checkpoint_cases.MESHES[4],
               False)
  table = here["directory"] / "table"
  check_loaded(checkpoint_cases.load_each(1, str(table)), saved,
               checkpoint_cases.MESHES[1], True)
  out = tmp_path / "loaded.json"
  done = launcher.launch(
      [os.path.join("tests", "parallel", "checkpoint_load.py"), table, out],
      2)
  assert done.code == 0, done.tail()
  check_loaded(json.loads(out.read_text()), saved,
               checkpoint_cases.MESHES[2], False)


def test_same_mesh_goes_on_in_every_bit_without_fusion(tmp_path):
  """Four addends; see `test_every_checkpoint_loads_at_every_mesh`."""
  out = tmp_path / "losses.json"
  done = launcher.launch(
      [os.path.join("tests", "parallel", "checkpoint_bits.py"), tmp_path, out],
      4, environment={"HOROVOD_FUSION_THRESHOLD": "0"})
  assert done.code == 0, done.tail()
  found = json.loads(out.read_text())
  assert len(found) == len(checkpoint_cases.MESHES[4])
  for name, (unbroken, loaded) in found.items():
    assert len(loaded) == checkpoint_cases.STEPS_AFTER
    assert loaded == unbroken, name


def test_bytes_are_those_of_the_full_values_plus_headers(at, here):
  for name, found in saved_by(at, here, 2, 4).items():
    full, stored = found["bytes"]
    # The model is tiny, so headers are not: 300 bytes per stored slice.
    assert full <= stored < full + 100 * 300, name


@pytest.mark.parametrize("num_processes", PROCESSES)
def test_load_model_takes_the_saved_mesh_if_it_fits(at, here, num_processes):
  found = agreed(at(num_processes, "load_model"))
  saved = saved_by(at, here, *[n for n in PROCESSES if n <= num_processes])
  assert found["digest"] == saved[found["name"]]["digest"]
  assert found["mesh"] == "model:%d" % num_processes


@pytest.mark.parametrize("num_processes", [4])
def test_twenty_saves_to_one_path_load_after_each(at, num_processes):
  found = agreed(at(num_processes, "often"))
  assert found["equal"] == [True] * checkpoint_cases.NUM_SAVES_IN_A_ROW
  assert found["files"] == num_processes + 1


@pytest.mark.parametrize("num_processes", [4])
def test_failure_of_one_process_is_raised_by_all(at, num_processes):
  values = at(num_processes, "failing")
  last = "rank %d of %d: " % (num_processes - 1, num_processes)
  # By what was done to the directory, which depends on the user's rights.
  words = {"a full file system": last + "OSError: [Errno 28]",
           "a limit of the size of files": last + "OSError: [Errno 27]",
           "another user": last + "PermissionError: [Errno 13]",
           "permissions": last + "PermissionError: [Errno 13]",
           "moved away": last + "FileNotFoundError",
           "an error of the system": "[Errno 28]"}
  for name in checkpoint_cases.BREAKING:
    for asynchronous in (False, True):
      seen = [value["%s %s" % (name, asynchronous)] for value in values]
      message, means = agreed([s[:2] for s in seen])
      assert words[means] in message, message
      assert "was not written" in message, message
      assert all(s[2] < 30 and s[3] for s in seen), seen
  assert all(value["loaded"] for value in values)
  assert agreed([value["files"] for value in values]) == num_processes + 1


@pytest.mark.parametrize("num_processes", [2])
def test_damage_that_one_process_reads_is_raised_by_all(at, num_processes):
  found = agreed(at(num_processes, "damaged"))
  message = found["flipped"][0]
  assert message.startswith("rank %d of" % (num_processes - 1)), message
  assert "checksum" in message and "'dense/kernel'" in message
  assert found["unchanged"]
  assert "the directory" in found["paths"]


@pytest.mark.parametrize("num_processes", [2])
def test_save_returns_after_the_commit_on_every_process(at, num_processes):
  assert at(num_processes, "slow") == [True] * num_processes


@pytest.mark.parametrize("num_processes", PROCESSES)
def test_resume_within_an_epoch_joins_the_history(at, here, num_processes):
  found = agreed(at(num_processes, "resume"))
  assert found["epoch"] == here["history"].epoch
  for name, values in here["history"].history.items():
    np.testing.assert_allclose(found["history"][name], values, rtol=1e-5)
  assert found["rate"] == here["model"].optimizer.learning_rate
  assert found["iterations"] == here["model"].iterations
