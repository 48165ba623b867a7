"""Saves and goes on, loads and goes on: checkpoint_bits.py DIRECTORY OUT.

At each mesh of this number of processes; for losses equal in every bit,
started with HOROVOD_FUSION_THRESHOLD=0.
"""

import json
import os
import sys

from meshkeras.mesh.process_sets import current_job
from tests.parallel import checkpoint_cases
from tests.parallel.checkpoint_cases import STEPS_AFTER, STEPS_BEFORE


def main(directory, out):
  found, job = {}, current_job()
  saved = checkpoint_cases.save_each(job.size, directory)
  for mesh, layout in checkpoint_cases.MESHES[job.size]:
    name = checkpoint_cases.name_of(mesh, layout)
    model = checkpoint_cases.make(mesh, layout)
    model.restore(os.path.join(directory, name))
    found[name] = [
        saved[name]["losses"], checkpoint_cases.losses(
            model, STEPS_BEFORE, STEPS_BEFORE + STEPS_AFTER)]
  if job.is_chief:
    with open(out, "w", encoding="utf-8") as file:
      json.dump(found, file)


if __name__ == "__main__":
  main(*sys.argv[1:])
