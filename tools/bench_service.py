"""How a process that is measured obeys bench.py: one socket, few words."""

import functools
import os
import time
from multiprocessing.connection import Client

import numpy as np

AUTHKEY = b"bench"
BATCH_SIZE = 256
NUM_CLASSES = 10
SHAPES = {"mlp": (1024,), "cnn": (28, 28, 1)}


def rank():
  return int(os.environ.get("HOROVOD_RANK", "0"))


def local_threads():
  """Returns cores per process, the same for every contestant."""
  local_size = int(os.environ.get("HOROVOD_LOCAL_SIZE", "1"))
  return max(1, len(os.sched_getaffinity(0)) // local_size)


@functools.lru_cache(maxsize=1)
def make_data(model_name, num_rows):
  """Returns (x, y) of random numbers, the same in every process.

  They are made in the first turn, which is not measured.
  """
  random = np.random.RandomState(0)
  x = random.uniform(size=(num_rows,) + SHAPES[model_name])
  return x.astype("float32"), random.randint(NUM_CLASSES, size=num_rows)


def serve(port, run_steps):
  """Calls `run_steps(number)` whenever bench.py asks, and sends seconds.

  Args:
    port: of bench.py on this machine.
    run_steps: function that trains so many steps and returns the last loss.
  """
  with Client(("localhost", int(port)), authkey=AUTHKEY) as connection:
    connection.send(os.getpid())
    while True:
      num_steps = connection.recv()
      if not num_steps:
        break
      begin = time.perf_counter()
      loss = run_steps(num_steps)
      connection.send((time.perf_counter() - begin, float(loss)))
