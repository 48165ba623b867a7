"""Starting Python under horovodrun, and ending every process of it.

horovodrun puts each worker in a session of its own, so neither its process
group nor its children name them all. Each launch therefore marks the
environment of its processes, and is ended by that mark.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))

# A slow or shared machine may need more; a hang costs this long.
TIMEOUT_SECONDS = float(os.environ.get("MESHKERAS_TEST_TIMEOUT", "180"))

_MARK = "MESHKERAS_TEST_LAUNCH"
_POLL_SECONDS = 0.1


class Launch(NamedTuple):
  """What became of one launch.

  code: exit code of the launcher; None if it had to be ended.
  output: stdout and stderr of all processes, each line with its rank.
  seconds: from the start to the end.
  stalled: whether nothing was heard of it for too long.
  """

  code: object
  output: str
  seconds: float
  stalled: bool

  def tail(self, num_lines=60):
    """Returns the end of the output."""
    return "\n".join(self.output.splitlines()[-num_lines:])


def launch(arguments, num_processes, *, timeout_seconds=TIMEOUT_SECONDS,
           start_seconds=0, progress=lambda: 0, environment=None):
  """Runs `python <arguments>` on so many processes, to its end or to ours.

  Args:
    arguments: list of words, the script first.
    num_processes: 1 runs it without a launcher.
    timeout_seconds: it is ended when `progress()` has not changed for so
      long; by default, when it has taken so long in all.
    start_seconds: so much more is allowed before the first progress: on a
      busy machine the imports of four processes take minutes.
    progress: function () -> a value that changes while work is done.
    environment: variables to add.

  Returns: Launch.
  """
  words = [sys.executable] + [str(word) for word in arguments]
  if num_processes > 1:
    horovodrun = os.path.join(os.path.dirname(sys.executable), "horovodrun")
    words = [horovodrun, "-np", str(num_processes)] + words
  mark = uuid.uuid4().hex
  with tempfile.TemporaryFile("w+b") as output:
    begin = time.monotonic()
    process = subprocess.Popen(
        words, cwd=ROOT, env=_environment(mark, environment), stdout=output,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        start_new_session=True)
    try:
      stalled = _wait(process, timeout_seconds, start_seconds, progress)
    finally:
      _end(process, mark)
    seconds = time.monotonic() - begin
    output.seek(0)
    text = output.read().decode("utf-8", "replace")
  return Launch(None if stalled else process.returncode, text, seconds,
                stalled)


def launch_code(code, num_processes, directory, **options):
  """As `launch`, for the text of a script, written to `directory`."""
  path = os.path.join(str(directory), "script.py")
  with open(path, "w", encoding="utf-8") as file:
    file.write(code)
  return launch([path], num_processes, **options)


def _environment(mark, added):
  environment = {
      name: value for name, value in os.environ.items()
      if not name.startswith(("HOROVOD_", "OMPI_"))}
  environment.update({
      _MARK: mark, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONUNBUFFERED": "1",
      "PYTHONPATH": os.pathsep.join(
          [ROOT] + [p for p in [environment.get("PYTHONPATH")] if p])})
  environment.update(added or {})
  return environment


def _wait(process, timeout_seconds, start_seconds, progress):
  """Returns whether the process made no progress for too long."""
  seen, heard = progress(), time.monotonic() + start_seconds
  while process.poll() is None:
    now = progress()
    if now != seen:
      seen, heard = now, time.monotonic()
    if time.monotonic() > heard + timeout_seconds:
      return True
    time.sleep(_POLL_SECONDS)
  return False


def _end(process, mark):
  """Ends whatever is left of a launch: the launcher first, then workers."""
  if process.poll() is None:
    process.send_signal(signal.SIGTERM)
    try:
      process.wait(5)
    except subprocess.TimeoutExpired:
      process.kill()
      process.wait()
  for pid in marked_processes(mark):
    try:
      os.kill(pid, signal.SIGKILL)
    except OSError:  # it has ended by itself meanwhile
      continue


def marked_processes(mark):
  """Returns the ids of the processes that a launch started and that live."""
  wanted = ("%s=%s" % (_MARK, mark)).encode("ascii")
  found = []
  for entry in os.listdir("/proc"):
    if not entry.isdigit() or int(entry) == os.getpid():
      continue
    try:
      with open("/proc/%s/environ" % entry, "rb") as file:
        variables = file.read().split(b"\0")
    except OSError:  # ended, or another user's
      continue
    if wanted in variables:
      found.append(int(entry))
  return found
