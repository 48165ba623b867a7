"""A launch that hangs is ended, with all its processes, and named."""

import os
import time

import pytest

from tests.parallel import launcher
from tests.parallel.results import CaseError, Results, Writer, decode, encode

HANGING = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"],
                         start_new_session=True)
print("PIDS %d %d" % (os.getpid(), child.pid), flush=True)
time.sleep(99)
"""


def alive(pid):
  try:
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
      return file.read().rsplit(")", 1)[1].split()[0] != "Z"
  except OSError:
    return False


def test_launch_that_hangs_is_ended_with_all_it_started(tmp_path):
  begin = time.monotonic()
  done = launcher.launch_code(HANGING, 1, tmp_path, timeout_seconds=3)
  assert done.stalled and done.code is None
  assert 3 <= time.monotonic() - begin < 60
  pids = [int(pid) for pid in done.output.split("PIDS ")[1].split()[:2]]
  deadline = time.monotonic() + 10
  while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
    time.sleep(0.1)
  assert not any(alive(pid) for pid in pids)


def test_launch_that_makes_progress_is_not_ended(tmp_path):
  code = "import time\nfor i in range(4): time.sleep(0.5)"
  done = launcher.launch_code(code, 1, tmp_path, timeout_seconds=1,
                              progress=time.monotonic)
  assert done.code == 0 and not done.stalled


def test_launch_gives_code_and_output(tmp_path):
  code = "import sys; print('said'); sys.exit(7)"
  done = launcher.launch_code(code, 1, tmp_path)
  assert done.code == 7 and "said" in done.output and not done.stalled


def test_results_name_the_case_and_the_ranks_that_hang(tmp_path):
  writers = [Writer(tmp_path, rank) for rank in range(3)]
  for writer in writers:
    writer.begin("fine")
    writer.end("fine", {"value": 1})
  writers[0].begin("bad")
  writers[1].begin("bad")
  writers[1].end("bad", error="Traceback of rank 1")
  results = Results(tmp_path, 3)
  results.add(launcher.Launch(None, "the last words", 12.0, True))
  assert results.by_rank("fine") == [{"value": 1}] * 3
  with pytest.raises(CaseError) as caught:
    results.by_rank("bad")
  message = str(caught.value)
  assert "case 'bad' on 3 processes failed" in message
  assert "rank 0: began and did not end" in message
  assert "rank 1: Traceback of rank 1" in message
  assert "rank 2: did not begin" in message
  assert "stalled and ended" in message and "the last words" in message
  assert results.began() == {"fine", "bad"}
  assert results.progress() == sum(
      os.path.getsize(path) for path in tmp_path.iterdir())


def test_values_come_back_in_every_bit():
  value = {"a": [1, 0.1 + 0.2, None, "x"], "b": {"c": [True]}}
  assert decode(encode(value)) == value
