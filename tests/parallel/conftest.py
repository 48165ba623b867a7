"""Launches that all parallel tests share: one per number of processes.

A test module names its suite, `SUITE = "training"`, and asks for `by_rank`;
the first test that needs N processes starts one launch that runs the cases
of all suites among the tests of this session.
"""

import json

import pytest

from tests.parallel import launcher
from tests.parallel.results import Results

# The first test of a session waits for whole launches.
TEST_TIMEOUT_SECONDS = 1800

# A case that hangs costs one timeout and is left out of the next launch.
MAX_LAUNCHES = 4


def pytest_collection_modifyitems(items):
  for item in items:
    if "tests/parallel" in item.path.as_posix():
      item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def launched(request, tmp_path_factory):
  """Function (number of processes) -> Results of all suites wanted."""
  suites = sorted({
      item.module.SUITE for item in request.session.items
      if hasattr(getattr(item, "module", None), "SUITE")})
  found = {}

  def results_of(num_processes):
    if num_processes not in found:
      directory = tmp_path_factory.mktemp("np%d" % num_processes)
      found[num_processes] = run_suites(suites, num_processes, directory)
    return found[num_processes]

  return results_of


@pytest.fixture
def by_rank(request, launched):
  """Function (number of processes, case) -> [its value on rank 0, ...]."""
  suite = request.module.SUITE
  return lambda num_processes, case: launched(num_processes).by_rank(
      "%s/%s" % (suite, case))


def run_suites(suites, num_processes, directory):
  """Returns the Results of the suites, launched again after a hang."""
  results = Results(directory, num_processes)
  for _ in range(MAX_LAUNCHES):
    with open(directory / "begun.json", "w", encoding="utf-8") as file:
      json.dump(sorted(results.began()), file)
    before = len(results.began())
    done = launcher.launch(
        ["-m", "tests.parallel.worker", directory,
         launcher.TIMEOUT_SECONDS] + suites,
        num_processes, start_seconds=2 * launcher.TIMEOUT_SECONDS,
        progress=results.progress)
    results.add(done)
    if done.code == 0 or len(results.began()) == before:
      break
  return results
