"""Saving and loading take the memory of a slice, not of a copy."""

import re

from tests.parallel import launcher


def test_model_saves_and_loads_without_memory_for_a_copy(tmp_path):
  done = launcher.launch(
      ["-m", "tests.parallel.checkpoint_memory", tmp_path], 2)
  assert done.code == 0, done.tail()
  found = re.search(r"own (\d+) MiB, spare (\d+) MiB, copy refused: (\w+)",
                    done.output)
  assert found and found.group(3) == "True", done.tail()
  assert 2 * int(found.group(2)) < int(found.group(1))
