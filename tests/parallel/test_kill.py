"""SIGKILL at every stage of a save and at random moments of a training.

MESHKERAS_KILLS sets the number of random moments; 200 take some 15 minutes.
"""

import os

from tests.parallel import launcher

KILLS = int(os.environ.get("MESHKERAS_KILLS", "3"))


def test_killed_trainings_go_on_to_the_unbroken_history(tmp_path):
  done = launcher.launch(
      ["-W", "ignore", "-m", "tests.parallel.kill_harness", "--directory",
       tmp_path, "--processes", 2, "--kills", KILLS], 1,
      timeout_seconds=300 + 15 * KILLS)
  assert done.code == 0, done.tail()
  assert "'stage': 15, 'moment': %d}" % KILLS in done.output, done.tail()
