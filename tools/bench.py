"""Steps per second of meshkeras and of tf.keras, measured side by side.

  python tools/bench.py               prints the tables
  python tools/bench.py --write       puts them in docs/benchmarks.md too

All contestants are started once and then take turns, a few steps each, for
several rounds: whatever else the machine does meets all of them. Those whose
turn it is not are stopped. Every process has cores / local processes
threads.
"""

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from multiprocessing.connection import Listener

import bench_service
import launch

KERAS, KERAS_2 = "tf.keras", "tf.keras + Horovod, 2 processes"
ONE, BATCH = "meshkeras", "meshkeras, batch over 2"
HIDDEN = "meshkeras, hidden1 over 2"
# name: (processes, script, what follows the port and the model's name)
CONTESTANTS = {
    KERAS: (1, "bench_keras.py", ["alone"]),
    ONE: (1, "bench_meshkeras.py", ["", ""]),
    KERAS_2: (2, "bench_keras.py", ["horovod"]),
    BATCH: (2, "bench_meshkeras.py", ["data:2", "batch:data"]),
    HIDDEN: (2, "bench_meshkeras.py", ["model:2", "hidden1:model"]),
}
# (which, beside which, the ratio wanted); the last is asked of the MLP.
RATIOS = [(ONE, KERAS, 0.95), (BATCH, KERAS_2, 1.0), (HIDDEN, KERAS_2, 1.5)]
MODELS = {
    "mlp": "MLP 1024-4096-4096-10",
    "cnn": "CNN 28x28: 32 filters, 64 filters, 128 hidden, 10 classes",
}
STEPS = {"mlp": 8, "cnn": 30}

START_SECONDS = 400


class StartTimeoutError(Exception):
  """A contestant has not called."""


def _on_alarm(*_):
  raise StartTimeoutError


def _on_terminate(*_):
  # So that contestants are ended on the way out.
  raise SystemExit("terminated")


class Contestant:
  """The processes of one contestant, and the sockets they obey.

  Args:
    listener: what they call when they are ready.
    name: key of CONTESTANTS.
    model_name: key of MODELS.
  """

  def __init__(self, listener, name, model_name):
    num_processes, script, arguments = CONTESTANTS[name]
    self._name = name
    self._num_steps = STEPS[model_name]
    self._log = tempfile.TemporaryFile("w+")
    self._process = launch.start(
        num_processes, script, [listener.address[1], model_name] + arguments,
        stdout=self._log, stderr=subprocess.STDOUT)
    self._connections, self._pids = [], []
    signal.alarm(START_SECONDS)
    try:
      while len(self._connections) < num_processes:
        self._connections.append(listener.accept())
        self._pids.append(self._connections[-1].recv())  # it is ready
    except (StartTimeoutError, EOFError) as error:
      self._fail(error)
    finally:
      signal.alarm(0)

  def take_turn(self):
    """Returns the steps per second of the slowest process.

    Its processes stand still afterwards: Horovod's background threads talk
    all the time, which would slow down those whose turn it is.
    """
    self._signal(signal.SIGCONT)
    try:
      for connection in self._connections:
        connection.send(self._num_steps)
      seconds, _ = max(
          connection.recv() for connection in self._connections)
    except (OSError, EOFError) as error:
      self._fail(error)
    self._signal(signal.SIGSTOP)
    return self._num_steps / seconds

  def end(self):
    """Tells the processes to end, and waits for them."""
    self._signal(signal.SIGCONT)
    for connection in self._connections:
      connection.send(0)
    self._process.wait(60)

  def stop(self):
    """Ends what has not ended."""
    if self._process.poll() is None:
      self._signal(signal.SIGCONT)
    launch.stop(self._process)

  def _signal(self, number):
    for pid in self._pids:
      try:
        os.kill(pid, number)
      except ProcessLookupError:
        pass

  def _fail(self, error):
    self.stop()
    self._log.seek(0)
    raise RuntimeError(
        "%s failed:\n%s" % (self._name, self._log.read())) from error


def measure(model_name, num_rounds, names):
  """Returns {contestant: list of steps per second, one per round}."""
  rates = {name: [] for name in names}
  running = {}
  with Listener(("localhost", 0), authkey=bench_service.AUTHKEY) as listener:
    try:
      for name in names:
        running[name] = Contestant(listener, name, model_name)
        running[name].take_turn()  # graphs are made
      for number in range(num_rounds):
        # Each round begins with another one.
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
          rates[name].append(running[name].take_turn())
          print("%s, round %d: %s: %.2f steps/s" % (
              model_name, number + 1, name, rates[name][-1]),
                file=sys.stderr, flush=True)
      for contestant in running.values():
        contestant.end()
    finally:
      for contestant in running.values():
        contestant.stop()
  return rates


def report(model_name, rates):
  """Returns the text of one model's table and ratios."""
  medians = {name: statistics.median(values)
             for name, values in rates.items()}
  rows = [(name, "%.2f" % medians[name],
           "%.2f to %.2f" % (min(values), max(values)))
          for name, values in rates.items()]
  text = "%s, global batch %d, Adam, float32\n\n%s\n" % (
      MODELS[model_name], bench_service.BATCH_SIZE,
      launch.table(("", "steps/s (median)", "range"), rows))
  for name, other, wanted in RATIOS:
    if name in medians and other in medians:
      # The contestants of one round ran within a minute of each other.
      ratio = statistics.median(
          a / b for a, b in zip(rates[name], rates[other]))
      goal = "" if name == HIDDEN and model_name != "mlp" else (
          " (wanted: %.2f)" % wanted)
      text += "\n- %s / %s: **%.2f**%s" % (name, other, ratio, goal)
  return text


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--write", action="store_true")
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--models", default="mlp,cnn")
  parser.add_argument("--only", default="", help="names, separated by ';'")
  options = parser.parse_args()
  signal.signal(signal.SIGALRM, _on_alarm)
  signal.signal(signal.SIGTERM, _on_terminate)
  names = [name for name in CONTESTANTS
           if not options.only or name in options.only.split(";")]
  texts = []
  for model_name in options.models.split(","):
    rates = measure(model_name, options.rounds, names)
    texts.append(report(model_name, rates))
    print(texts[-1] + "\n", flush=True)
  machine = "%d cores, %s, %d rounds" % (
      len(os.sched_getaffinity(0)), platform.machine(), options.rounds)
  if options.write:
    launch.write_between_marks(
        os.path.join(launch.ROOT, "docs", "benchmarks.md"),
        "\n\n".join(["Measured on " + machine + "."] + texts))
  return 0


if __name__ == "__main__":
  sys.exit(main())
