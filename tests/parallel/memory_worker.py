"""Prints how much the peak memory of this process grew for one SGD step.

  memory_worker.py <directory> <mesh> <layout> <kernel's rows> <columns>

Writes {"growth": bytes, ...} to <directory>/memory-<rank>.json.
"""

import json
import os
import sys

import numpy as np

import meshkeras as mk
from meshkeras import layers
from meshkeras.mesh.process_sets import current_job

BATCH = 2


def memory(name):
  """Returns a line of /proc/self/status in bytes, such as VmRSS."""
  with open("/proc/self/status", encoding="ascii") as file:
    for line in file:
      if line.startswith(name + ":"):
        return int(line.split()[1]) * 1024
  raise RuntimeError("/proc/self/status has no %s" % name)


def forget_peak():
  """Lets the peak begin at what is used now, where the kernel allows it."""
  try:
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
      file.write("5")
  except OSError:
    pass


def small_step():
  """Has everything loaded that a first step loads."""
  model = build(8, 8)
  model.compile(optimizer="sgd", loss="mse")
  model.train_on_batch(np.ones((BATCH, 8)), np.ones((BATCH, 8)))


def build(num_inputs, num_outputs):
  return mk.Sequential([
      mk.Input((num_inputs,), dims=("inputs",)),
      layers.Dense(num_outputs, dim="hidden", use_bias=False)])


def main(directory, mesh, layout, num_inputs, num_outputs):
  num_inputs, num_outputs = int(num_inputs), int(num_outputs)
  small_step()
  model = build(num_inputs, num_outputs)
  x = np.ones((BATCH, num_inputs), np.float32)
  y = np.ones((BATCH, num_outputs), np.float32)
  forget_peak()
  before = memory("VmRSS")
  model.compile(optimizer="sgd", loss="mse", mesh=mesh, layout=layout)
  model.runtime.store.initialize()
  started = memory("VmHWM") - before
  forget_peak()
  made, steps = [], []
  for _ in range(2):
    model.train_on_batch(x, y)
    made.append(memory("VmHWM") - before)
    steps.append(memory("VmRSS") - before)
  stepped = memory("VmHWM") - before
  found = {"growth": max(started, stepped), "stepped": stepped,
           "after": made, "held": steps, "loss": model.test_on_batch(x, y)}
  path = os.path.join(directory, "memory-%d.json" % current_job().rank)
  with open(path, "w", encoding="utf-8") as file:
    json.dump(found, file)


if __name__ == "__main__":
  main(*sys.argv[1:])
