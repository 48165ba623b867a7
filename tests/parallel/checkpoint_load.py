"""Loads every checkpoint of a directory: checkpoint_load.py DIRECTORY OUT.

The second launch at 2 processes, for what 4 processes have saved.
"""

import json
import sys

from meshkeras.mesh.process_sets import current_job
from tests.parallel import checkpoint_cases


def main(directory, out):
  found = checkpoint_cases.load_each(current_job().size, directory)
  if current_job().is_chief:
    with open(out, "w", encoding="utf-8") as file:
      json.dump(found, file)


if __name__ == "__main__":
  main(*sys.argv[1:])
