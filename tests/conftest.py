"""What every test starts from."""

import pytest

import meshkeras as mk


@pytest.fixture(autouse=True)
def _seed_of_a_new_process():
  """Undoes `set_random_seed`, which lasts as long as the process."""
  mk.set_random_seed(0)
  yield
  mk.set_random_seed(0)
