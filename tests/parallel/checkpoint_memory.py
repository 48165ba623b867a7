"""Saves and loads a model under a memory limit: checkpoint_memory.py DIR.

Once the model is there, the limit is set to what the process has and a few
slices more: much less than a copy of what it holds, let alone of the model.
"""

import os
import resource
import sys

import numpy as np

from meshkeras.mesh import Layout, Mesh, host_collectives
from meshkeras.mesh.process_sets import current_job
from meshkeras.models.runtime import Runtime
from meshkeras.store import commit, restore
from meshkeras.upstream import tf

MIB = 1 << 20
ROWS, COLUMNS = 4096, 2048  # 32 MiB of float32
NUM_VARIABLES = 24
# For the slice being moved, buffers, and the threads' stacks.
SPARE_BYTES = 128 * MIB


def used_bytes():
  """Returns the bytes of this process that RLIMIT_DATA counts."""
  with open("/proc/self/status", encoding="ascii") as file:
    line = next(line for line in file if line.startswith("VmData"))
  return int(line.split()[1]) * 1024


def runtime_of(num_variables):
  """Returns a Runtime whose variables are made and have no values yet."""
  job = current_job()
  runtime = Runtime(Mesh("axis:%d" % job.size), Layout("columns:axis"), 0)

  def values(key, sizes, box, dtype):
    del sizes
    return np.full([end - begin for begin, end in box], key % 97, dtype)

  for number in range(num_variables):
    runtime.store.create(
        "variable_%d" % number, (("rows", ROWS), ("columns", COLUMNS)),
        tf.float32, values, trainable=True, role="weight")
  return runtime


def main(directory):
  job = current_job()
  runtime = runtime_of(NUM_VARIABLES)
  runtime.store.initialize()
  own_bytes = NUM_VARIABLES * ROWS * COLUMNS * 4 // job.size
  # Threads and sessions of the collectives start before memory is short.
  host_collectives.gather_objects(0)
  limit = used_bytes() + SPARE_BYTES
  resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
  path = os.path.join(directory, "saved")
  commit.save(runtime.store, path, {})
  restore.restore(runtime.store, path, restore.read_agreed(path), ("weight",))
  refused = False
  try:
    np.ones(own_bytes, np.uint8)
  except MemoryError:
    refused = True
  if job.is_chief:
    sys.stdout.write("RESULT own %d MiB, spare %d MiB, copy refused: %s\n" % (
        own_bytes // MIB, SPARE_BYTES // MIB, refused))
  host_collectives.barrier()


if __name__ == "__main__":
  main(*sys.argv[1:])
