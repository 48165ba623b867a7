"""Starting a script on one or several processes of this machine."""

import os
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def command(num_processes, script, arguments=()):
  """Returns the words that run a script of tools/ on so many processes.

  One process needs no launcher; several are started by horovodrun.
  """
  words = [sys.executable, os.path.join(ROOT, "tools", script)]
  words += [str(argument) for argument in arguments]
  if num_processes == 1:
    return words
  horovodrun = os.path.join(os.path.dirname(sys.executable), "horovodrun")
  return [horovodrun, "-np", str(num_processes)] + words


def start(num_processes, script, arguments=(), **options):
  """Starts the script in a process group of its own; returns its Popen."""
  environment = dict(os.environ)
  environment["PYTHONPATH"] = os.pathsep.join(
      [ROOT, environment.get("PYTHONPATH", "")]).rstrip(os.pathsep)
  environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
  # bench.py stops processes for longer than Gloo waits by default.
  environment.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", "3600")
  environment.setdefault("HOROVOD_STALL_CHECK_DISABLE", "1")
  return subprocess.Popen(
      command(num_processes, script, arguments), env=environment, cwd=ROOT,
      start_new_session=True, **options)


def stop(process):
  """Ends a script that `start` started, with all it started itself."""
  if process.poll() is None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
      process.wait(10)
    except subprocess.TimeoutExpired:
      os.killpg(process.pid, signal.SIGKILL)
      process.wait()


def run(num_processes, script, arguments=(), timeout_seconds=600):
  """Runs the script to its end.

  Raises:
    RuntimeError: it failed or took longer; the message ends with what it
      wrote.
  """
  process = start(num_processes, script, arguments, stdout=subprocess.PIPE,
                  stderr=subprocess.STDOUT, text=True)
  try:
    output, _ = process.communicate(timeout=timeout_seconds)
  except subprocess.TimeoutExpired:
    stop(process)
    output, _ = process.communicate()
    raise RuntimeError(
        "%s on %d processes took more than %d s:\n%s"
        % (script, num_processes, timeout_seconds, output)) from None
  finally:
    stop(process)
  if process.returncode:
    raise RuntimeError(
        "%s on %d processes ended with code %d:\n%s"
        % (script, num_processes, process.returncode, output))
  return output


def table(header, rows):
  """Returns a Markdown table as text."""
  widths = [max(len(str(cell)) for cell in column)
            for column in zip(header, *rows)]
  lines = ["| " + " | ".join(
      str(cell).ljust(width) for cell, width in zip(row, widths)) + " |"
           for row in [header] + list(rows)]
  lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
  return "\n".join(lines)


def write_between_marks(path, text):
  """Puts `text` between the two marks of a Markdown file.

  What a reader should know about the numbers is written by hand around the
  marks, and stays.
  """
  begin, end = "<!-- measured: begin -->", "<!-- measured: end -->"
  with open(path, encoding="utf-8") as file:
    content = file.read()
  head, _, rest = content.partition(begin)
  _, mark, tail = rest.partition(end)
  if not mark:
    raise RuntimeError("%s: the lines %r and %r are missing; add them where "
                       "the table belongs." % (path, begin, end))
  with open(path, "w", encoding="utf-8") as file:
    file.write("%s%s\n%s\n%s%s" % (head, begin, text, end, tail))
