"""Runs long commands: one line on the screen, everything else in a log."""

import subprocess
import sys
import time

TAIL_LINES = 15


class StepError(Exception):
  """A step of the set-up failed; its text is all the user needs to see."""


def say(text):
  """Writes one line of progress at once, also into a pipe."""
  sys.stdout.write("meshkeras: %s\n" % text)
  sys.stdout.flush()


def run_step(label, command, log_path, env=None, cwd=None):
  """Runs `command`, its output added to a log, with one line of progress.

  Args:
    label: what is being done and roughly how long it takes.
    command: list of words.
    log_path: file to which the command's whole output is added.
    env: environment of the command; that of this process if None.
    cwd: folder to run it in.

  Raises:
    StepError: the command failed; the text has the end and the path of the
      log.
  """
  say(label + " ...")
  start = time.time()
  with open(log_path, "a", encoding="utf-8") as log:
    log.write("\n== %s\n$ %s\n" % (label, " ".join(map(str, command))))
    log.flush()
    process = subprocess.Popen(
        [str(word) for word in command], stdout=log,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env, cwd=cwd)
    code = _wait_showing_seconds(process, start)
  if code:
    raise StepError(_failure(label, code, log_path))
  say("  done in %d s" % round(time.time() - start))


def _wait_showing_seconds(process, start):
  if not sys.stdout.isatty():
    return process.wait()
  while process.poll() is None:
    sys.stdout.write("\r  %d s" % (time.time() - start))
    sys.stdout.flush()
    time.sleep(0.5)
  sys.stdout.write("\r        \r")
  return process.returncode


def _failure(label, code, log_path):
  with open(log_path, encoding="utf-8", errors="replace") as log:
    tail = log.read().splitlines()[-TAIL_LINES:]
  return "\n".join(
      ["this step failed with exit code %d: %s" % (code, label)]
      + ["  | " + line for line in tail]
      + ["The whole log: %s" % log_path])
