"""Saving and loading take the memory of a slice, not of a copy."""

import json

from tests.parallel import launcher

# A model of 2 GB is made, written and read.
TIMEOUT_SECONDS = 2 * launcher.TIMEOUT_SECONDS


def run(act, path):
  """Returns what checkpoint_memory.py found on each rank."""
  done = launcher.launch(
      ["-m", "tests.parallel.checkpoint_memory", act, path], 2,
      timeout_seconds=TIMEOUT_SECONDS)
  assert done.code == 0, done.tail()
  line = next(line for line in done.output.splitlines() if "RESULT " in line)
  print(act, line)
  return json.loads(line.partition("RESULT ")[2])


def test_model_over_half_the_memory_limit_saves_and_loads(tmp_path):
  saved = run("save", tmp_path / "saved")
  loaded = run("load", tmp_path / "saved")
  for found in saved + loaded:
    assert 2 * found["own"] > found["limit"] > found["peak"], found
  assert [f["digest"] for f in loaded] == [f["digest"] for f in saved]
