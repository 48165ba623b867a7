"""One process of bench_checkpoint.py: see there.

  bench_checkpoint_worker.py <directory> <megabytes> <rounds>

Process 0 prints one line of JSON.
"""

import json
import os
import resource
import sys
import time

import numpy as np

from meshkeras.mesh import Layout, Mesh, host_collectives
from meshkeras.mesh.process_sets import current_job
from meshkeras.models.runtime import Runtime
from meshkeras.store import commit, manifest, restore
from meshkeras.upstream import tf

# Each variable is [ROWS, COLUMNS] of float32: 64 MB.
ROWS, COLUMNS = 4096, 4096
CHUNK_BYTES = 1 << 22
MIB = 1 << 20


def make_store(num_variables, layout):
  """Returns a store whose variables hold random numbers."""
  job = current_job()
  runtime = Runtime(Mesh("axis:%d" % job.size), Layout(layout), seed=0)
  row = np.random.RandomState(job.rank).standard_normal(COLUMNS * 97)

  def values(key, sizes, box, dtype):
    del key, sizes
    shape = [end - begin for begin, end in box]
    return np.resize(row.astype(dtype), shape)

  for number in range(num_variables):
    runtime.store.create(
        "variable_%02d" % number, (("rows", ROWS), ("columns", COLUMNS)),
        tf.float32, values, trainable=True, role="weight")
  runtime.store.initialize()
  return runtime.store


def timed(act):
  """Returns the seconds until every process has done `act`."""
  host_collectives.barrier()
  begin = time.perf_counter()
  act()
  host_collectives.barrier()
  return time.perf_counter() - begin


def write_plain(path, data, count):
  """Writes `count` times `data` to one file and flushes it to disk."""
  descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
  for _ in range(count):
    for begin in range(0, data.size, CHUNK_BYTES):
      os.write(descriptor, data[begin:begin + CHUNK_BYTES])
  os.fsync(descriptor)
  os.close(descriptor)


def read_plain(path, size, count):
  """Reads a file into `count` new arrays of `size` bytes, which it keeps."""
  kept = []
  with open(path, "rb", buffering=0) as file:
    for _ in range(count):
      kept.append(np.empty(size, np.uint8))
      fill(file, kept[-1])


def read_and_drop(path, size, count):
  """As read_plain, into one array again and again."""
  data = np.zeros(size, np.uint8)
  with open(path, "rb", buffering=0) as file:
    for _ in range(count):
      fill(file, data)


def fill(file, out):
  done = 0
  while done < out.size:
    done += file.readinto(memoryview(out)[done:])


def forget(paths):
  """Has the system drop its copies of files: the next read is of the disk."""
  for path in paths:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def peak_bytes():
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def shards(path):
  return [os.path.join(path, name) for name in manifest.read(path).files]


def one_round(store, directory, number):
  """Returns {what: seconds} of plain and checkpoint writes and reads."""
  job, found = current_job(), {}
  plain = os.path.join(directory, "plain-%d" % job.rank)
  saved = os.path.join(directory, "saved-%d" % number)
  size, count = ROWS * COLUMNS * 4 // job.size, len(store)
  data = np.ones(size, np.uint8)

  def load(new):
    for stored in store:
      stored.initialized = not new
    restore.restore(store, saved, restore.read_agreed(saved), ("weight",))

  found["write"] = timed(lambda: write_plain(plain, data, count))
  found["save"] = timed(lambda: commit.save(store, saved, {}))
  for kind in ("cold", "warm"):
    for what, paths, act in (
        ("read", [plain], lambda: read_plain(plain, size, count)),
        ("drop", [plain], lambda: read_and_drop(plain, size, count)),
        ("load", shards(saved), lambda: load(new=True)),
        ("reload", shards(saved), lambda: load(new=False))):
      if kind == "cold":
        forget(paths)
      found["%s %s" % (what, kind)] = timed(act)
  return found


def main(directory, megabytes, rounds):
  num_variables = max(2, int(megabytes) * MIB // (ROWS * COLUMNS * 4))
  store = make_store(num_variables, "columns:axis")
  job = current_job()
  found = []
  peaks = [peak_bytes()]
  saved = os.path.join(directory, "first")
  commit.save(store, saved, {})
  peaks.append(peak_bytes())
  restore.restore(store, saved, restore.read_agreed(saved), ("weight",))
  peaks.append(peak_bytes())
  for number in range(int(rounds)):
    found.append(one_round(store, directory, number % 2))
  index = manifest.read(saved)
  peaks = host_collectives.gather_objects(peaks)
  if job.is_chief:
    sys.stdout.write("RESULT " + json.dumps({
        "rounds": found, "peaks": peaks,
        "full": sum(v.num_bytes for v in index.variables.values()),
        "stored": sum(index.files.values()),
        "slice": ROWS * COLUMNS * 4 // job.size}) + "\n")


if __name__ == "__main__":
  main(*sys.argv[1:])
