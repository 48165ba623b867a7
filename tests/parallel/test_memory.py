"""A variable of 400 MB split over 2 processes: no process holds it whole."""

import json

import pytest

from tests.parallel import launcher

ROWS, COLUMNS = 10000, 10000
VARIABLE_BYTES = 4 * ROWS * COLUMNS
MOST = 0.65


def grown(num_processes, directory):
  """Returns [what memory_worker.py wrote on each rank]."""
  done = launcher.launch(
      ["-m", "tests.parallel.memory_worker", directory,
       "model:%d" % num_processes, "hidden:model", ROWS, COLUMNS],
      num_processes, timeout_seconds=2 * launcher.TIMEOUT_SECONDS)
  assert done.code == 0, done.tail()
  found = []
  for rank in range(num_processes):
    with open(directory / ("memory-%d.json" % rank), encoding="utf-8") as file:
      found.append(json.load(file))
  return found


def test_split_variable_needs_a_share_of_the_memory(tmp_path):
  directories = [tmp_path / "one", tmp_path / "two"]
  for directory in directories:
    directory.mkdir()
  one, = grown(1, directories[0])
  two = grown(2, directories[1])
  told = "peak growth in MB: one process %.0f, two %s" % (
      one["growth"] / 1e6, ["%.0f" % (f["growth"] / 1e6) for f in two])
  print(told)
  # One process needs the variable and its gradient, and no third copy: else
  # the share below would be of too much. (TensorFlow 2.18 makes one, of one
  # variable, when an initial value is assigned.)
  assert VARIABLE_BYTES < one["stepped"] < 2.5 * VARIABLE_BYTES, told
  assert one["growth"] < 3.5 * VARIABLE_BYTES, told
  for found in two:
    assert found["growth"] <= MOST * one["growth"], told
    assert found["loss"] == pytest.approx(one["loss"], rel=1e-5)
