"""Saves or loads a model that takes more than half of a process's memory.

  checkpoint_memory.py save|load <path>

The limit is set before the model is there: what the process has after its
imports, its part of the model, and a few slices more. The model is as large
as makes its part more than half of that, so that no copy of it can exist.
Where the user may make control groups, the system keeps the limit.
"""

import json
import math
import sys
import zlib

import numpy as np

import meshkeras as mk
from meshkeras import layers
from meshkeras.mesh import host_collectives
from meshkeras.mesh.process_sets import current_job
from tests.parallel.memory_limit import own_group
from tests.parallel.memory_worker import memory

MIB = 1 << 20
WIDTH = 4096
# For the slice being made or moved, buffers, graphs and threads' stacks.
SPARE_BYTES = 384 * MIB


def make(num_layers):
  model = mk.Sequential([mk.Input((WIDTH,), dims=("in",))] + [
      layers.Dense(WIDTH, dim="hidden", name="dense_%d" % number)
      for number in range(num_layers)])
  model.compile("sgd", "mse", mesh="model:%d" % current_job().size,
                layout="hidden:model")
  return model


def digest(model):
  """Returns the CRC-32 of this process's slices, one at a time."""
  store, found = model.runtime.store, 0
  for name in store.names():
    for value in store.read_slices(name).values():
      found = zlib.crc32(np.ascontiguousarray(value), found)
  return found


def main(act, path, group):
  job = current_job()
  # The collectives' session and threads, before memory is measured.
  base = max(host_collectives.gather_objects(memory("VmRSS")))
  layer_bytes = WIDTH * WIDTH * 4 // job.size
  num_layers = math.ceil(1.1 * (base + SPARE_BYTES) / layer_bytes)
  own_bytes = num_layers * layer_bytes
  limit = base + own_bytes + SPARE_BYTES
  if group is not None:
    group.limit(limit)
  if act == "save":
    model = make(num_layers)
    model.save(path)
  else:
    model = mk.load_model(path)
  found = {"own": own_bytes, "limit": limit, "digest": digest(model),
           "peak": memory("VmHWM"), "kept by the system": group is not None}
  found = host_collectives.gather_objects(found)
  if job.is_chief:
    sys.stdout.write("RESULT %s\n" % json.dumps(found))


if __name__ == "__main__":
  own = own_group()
  try:
    main(*sys.argv[1:], own)
  finally:
    if own is not None:
      own.leave()
