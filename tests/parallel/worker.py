"""Runs the cases of several suites in one process of a job.

  worker.py <directory> <seconds> <suite> ...

A suite is a module `tests/parallel/<suite>_cases.py` with a function
`cases(num_processes)` that returns {name: function without arguments}. What
a function returns, or raises, goes to this rank's file in the directory;
cases that are in it already are left out, so that a launch that hung can be
taken up after the case at fault.
"""

import faulthandler
import importlib
import json
import os
import sys
import time
import traceback

import meshkeras as mk
from meshkeras.mesh import host_collectives
from meshkeras.mesh.process_sets import current_job
from tests.parallel.results import Writer


def main(directory, seconds, *suites):
  job = current_job()
  with open(os.path.join(directory, "begun.json"), encoding="utf-8") as file:
    begun = set(json.load(file))
  writer = Writer(directory, job.rank)
  for suite in suites:
    module = importlib.import_module("tests.parallel.%s_cases" % suite)
    for name, run in module.cases(job.size).items():
      name = "%s/%s" % (suite, name)
      if name not in begun:
        _run(writer, name, run, float(seconds))


def _run(writer, name, run, seconds):
  """Runs one case on all ranks, which leave it together."""
  mk.set_random_seed(0)  # that of a new process
  writer.begin(name)
  # Where each thread waits, should the launcher have to end this process.
  faulthandler.dump_traceback_later(0.8 * seconds)
  begin = time.monotonic()
  try:
    writer.end(name, run(), seconds=time.monotonic() - begin)
  except Exception:  # every failure is one case's result
    writer.end(name, error=traceback.format_exc())
  host_collectives.barrier()
  faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
  main(*sys.argv[1:])
