"""Ends the processes of a training by SIGKILL and goes on from what is left.

  python -m tests.parallel.kill_harness --directory D --processes 2 --kills 200

A job trains with a backup every third step and a checkpoint per epoch. It is
ended at each named stage of a save and at random moments, one process or all
of them, asynchronous saves included, and started again on what it left, until
its epochs are done. After each end the newest complete checkpoint must load
and verify; in the end the joined History must be that of a job never ended.

The processes are forked from one that has imported everything already, with
Horovod's own rendezvous, as horovodrun would start them.
"""

import argparse
import json
import os
import random
import select
import shutil
import signal
import sys
import time
import traceback

import numpy as np
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousServer

import meshkeras as mk
from meshkeras import layers, upstream
from meshkeras.saving import checkpoints, reading
from meshkeras.store import manifest, stages

NUM_ROWS, BATCH_SIZE, EPOCHS, SAVE_FREQ = 96, 8, 8, 3
# A job that does nothing for so long hangs.
STALL_SECONDS = 90
# How long the others live on when one process has been ended.
SURVIVAL_SECONDS = 0.3


def train(directory, asynchronous):
  """The script under test: the same on every process."""
  x = np.random.RandomState(5).standard_normal((NUM_ROWS, 8)).astype("f")
  model = mk.Sequential([
      mk.Input((8,), dims=("in",)),
      layers.Dense(64, dim="hidden", activation="relu"), layers.Dropout(0.1),
      layers.Dense(4, dim="out")])
  model.compile(mk.optimizers.Adam(0.01), "mse", ["mae"])
  return model.fit(
      x, x[:, :4], batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=0,
      callbacks=[
          mk.callbacks.ReduceLROnPlateau("loss", 0.7, 1),
          mk.callbacks.ModelCheckpoint(
              os.path.join(directory, "epoch-{epoch:02d}"), "loss", keep=2,
              keep_best=1, asynchronous=asynchronous),
          mk.callbacks.BackupAndRestore(
              os.path.join(directory, "backup"), SAVE_FREQ,
              delete_checkpoint=False, asynchronous=asynchronous)])


class KillAt:
  """Ends this process, or the whole group, at the n-th reach of a stage."""

  def __init__(self, stage, count, group):
    self._stage, self._count, self._group = stage, count, group

  def __call__(self, stage):
    if stage == self._stage:
      self._count -= 1
      if not self._count:
        if self._group:
          os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def child(rank, size, port, told, plan):
  """The life of one process; never returns."""
  try:
    if size > 1:
      os.environ.update({
          "HOROVOD_HOSTNAME": "localhost", "HOROVOD_RANK": str(rank),
          "HOROVOD_SIZE": str(size), "HOROVOD_LOCAL_RANK": str(rank),
          "HOROVOD_LOCAL_SIZE": str(size), "HOROVOD_CROSS_RANK": "0",
          "HOROVOD_CROSS_SIZE": "1", "HOROVOD_CONTROLLER": "gloo",
          "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_IFACE": "lo",
          "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
          "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port)})
    if plan.get("stage") and plan["rank"] in (rank, None):
      stages.observe(KillAt(
          plan["stage"], plan["count"], plan["rank"] is None))
    first = []

    def tell_begun(stage):
      if not first:
        first.append(stage)
        os.write(told, b"begun\n")

    stages.observe(tell_begun)
    history = train(plan["directory"], plan["asynchronous"])
    if rank == 0:
      path = os.path.join(plan["directory"], "history.json")
      with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump([history.epoch, history.history], file)
      os.replace(path + ".part", path)
    os._exit(0)
  except BaseException:
    if plan.get("loud"):
      traceback.print_exc()
    os._exit(1)


class Job:
  """The forked processes of one start of the script."""

  def __init__(self, size, plan):
    self.size = size
    self._server, port = None, 0
    if size > 1:
      self._server = RendezvousServer()
      port = self._server.start()
      self._server.init(get_host_assignments(
          parse_hosts("localhost:%d" % size), size))
    self._reader, told = os.pipe()
    self.pids = []
    for rank in range(size):
      pid = os.fork()
      if not pid:
        os.setpgid(0, self.pids[0] if self.pids else 0)
        child(rank, size, port, told, plan)
      os.setpgid(pid, self.pids[0] if self.pids else pid)
      self.pids.append(pid)
    os.close(told)
    self.codes = {}

  def has_begun(self):
    return bool(select.select([self._reader], [], [], 0)[0])

  def poll(self):
    """Returns the ids of processes that still run."""
    for pid in self.pids:
      if pid not in self.codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
          self.codes[pid] = os.waitstatus_to_exitcode(status)
    return [pid for pid in self.pids if pid not in self.codes]

  def end(self):
    """Ends and reaps what is left; returns the exit codes by rank."""
    for pid in self.poll():
      os.kill(pid, signal.SIGKILL)
    while self.poll():
      time.sleep(0.01)
    os.close(self._reader)
    if self._server is not None:
      self._server.stop()
    return [self.codes[pid] for pid in self.pids]


def run_job(size, plan):
  """Runs a job to its end or its kill; returns the exit codes.

  Args:
    size: number of processes.
    plan: dict of directory, asynchronous, and either stage, count, rank
      (None for all), or delay, the seconds from the first save to the kill.
  """
  job = Job(size, plan)
  begun_at, started = None, time.monotonic()
  try:
    while job.poll():
      time.sleep(0.002)
      now = time.monotonic()
      if begun_at is None and job.has_begun():
        begun_at = now
      if any(code for code in job.codes.values()):
        time.sleep(SURVIVAL_SECONDS)
        break
      if begun_at and plan.get("delay") is not None and (
          now - begun_at > plan["delay"]):
        ranks = range(size) if plan["rank"] is None else [plan["rank"]]
        for rank in ranks:
          if job.pids[rank] not in job.codes:
            os.kill(job.pids[rank], signal.SIGKILL)
        time.sleep(SURVIVAL_SECONDS if plan["rank"] is not None else 0)
        break
      if now - started > STALL_SECONDS:
        raise AssertionError("the job hangs: %s" % plan)
  finally:
    codes = job.end()
  return codes


class Training:
  """One directory, trained in it by one job after the other."""

  def __init__(self, root, number):
    self.directory = os.path.join(root, "training-%d" % number)
    shutil.rmtree(self.directory, ignore_errors=True)
    os.makedirs(self.directory)
    self._step = 0

  @property
  def history(self):
    """(epochs, History) if the training has ended, else None."""
    try:
      with open(os.path.join(self.directory, "history.json"),
                encoding="utf-8") as file:
        return json.load(file)
    except FileNotFoundError:
      return None

  def check(self):
    """Verifies the newest checkpoints; returns the step of the newest."""
    backup = os.path.join(self.directory, "backup")
    header = checkpoints.complete_header(backup)
    if self._step:
      assert header is not None, "the backup was complete, and is not"
    if header is not None:
      assert header["step"] >= self._step, (header["step"], self._step)
      self._step = header["step"]
      reading.verify(backup)
    newest = checkpoints.newest(self.directory)
    if header is not None:
      assert manifest.read(newest).header["saved_at"] >= header["saved_at"]
      reading.verify(newest)
    return self._step


def same_history(one, other):
  return one[0] == other[0] and all(
      np.allclose(values, other[1][name], rtol=1e-6)
      for name, values in one[1].items())


class Harness:
  """Trainings that are ended again and again; counts what happened."""

  def __init__(self, root, size, seed):
    self._root, self._size = root, size
    self._random = random.Random(seed)
    self._number = 0
    self._training = None
    self._asynchronous = False
    self.kills = {}
    self.finished = 0
    self.steps = []

  def reference(self):
    """Runs an unbroken job, to compare with and to time."""
    training = Training(self._root, 0)
    begin = time.monotonic()
    codes = run_job(self._size, {
        "directory": training.directory, "asynchronous": False,
        "loud": True})
    assert not any(codes) and training.history, codes
    self._unbroken = training.history
    self._seconds = time.monotonic() - begin
    shutil.rmtree(training.directory)
    return self._seconds

  def kill(self, name, **plan):
    """Starts the script, ends it by the plan, and checks what is left."""
    if self._training is None:
      self._number += 1
      self._training = Training(self._root, self._number)
      self._asynchronous = not self._asynchronous
    plan.update(directory=self._training.directory,
                asynchronous=self._asynchronous)
    codes = run_job(self._size, plan)
    self.steps.append(self._training.check())
    if -signal.SIGKILL in codes:
      self.kills[name] = self.kills.get(name, 0) + 1
    elif any(codes):
      raise AssertionError("the script failed: %s, %s" % (codes, plan))
    if self._training.history is not None:
      assert same_history(self._unbroken, self._training.history), plan
      self.finished += 1
      shutil.rmtree(self._training.directory)
      self._training = None

  def stages(self):
    """Ends a save at every stage, sometimes one process, sometimes all."""
    for number, stage in enumerate(stages.STAGES):
      local = stage in ("before_write", "within_write", "after_write",
                        "before_flush", "after_flush")
      rank = [0, None, self._size - 1][number % 3] if local else [
          0, None][number % 2]
      self.kill("stage", stage=stage, rank=rank,
                count=self._random.randint(2, 3))

  def moments(self, count):
    """Ends jobs at random moments after their first save."""
    wanted = self.kills.get("moment", 0) + count
    while self.kills.get("moment", 0) < wanted:
      rank = self._random.choice([None] + list(range(self._size)))
      self.kill("moment", rank=rank, delay=self._random.uniform(
          0, self._random.choice([0.1, 0.5, 2.0])))

  def finish(self):
    """Lets the training that is under way come to its end."""
    while self._training is not None:
      self.kill("none")


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--directory", required=True)
  parser.add_argument("--processes", type=int, default=2)
  parser.add_argument("--kills", type=int, default=200)
  parser.add_argument("--seed", type=int, default=0)
  flags = parser.parse_args()
  if flags.processes > 1:
    upstream.horovod()
  begin = time.monotonic()
  harness = Harness(flags.directory, flags.processes, flags.seed)
  seconds = harness.reference()
  print("unbroken job: %.1f s" % seconds, flush=True)
  harness.stages()
  print("stages: %s, %.0f s" % (harness.kills, time.monotonic() - begin),
        flush=True)
  harness.moments(flags.kills)
  harness.finish()
  print("processes %d: %s ends, %d trainings came to their end with the "
        "History of an unbroken one; %.0f s" % (
            flags.processes, harness.kills, harness.finished,
            time.monotonic() - begin), flush=True)


if __name__ == "__main__":
  sys.exit(main())
