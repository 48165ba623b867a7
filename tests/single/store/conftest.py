"""The stores that tests of checkpoints share."""

import numpy as np
import pytest

from meshkeras.store import manifest
from tests.single.store.stores import (
  LAYOUTS,
  full_values,
  make_store,
)


@pytest.fixture(scope="module")
def stores():
  return {layout: make_store(*layout) for layout in LAYOUTS}


@pytest.fixture(scope="module")
def values(stores):
  return full_values(stores[LAYOUTS[0]])


@pytest.fixture
def store(stores, values):
  """The store of one processor, with its first values."""
  found = stores[("", "")]
  found.initialized = True
  for name in found.names():
    found.scatter(name, np.frombuffer(
        values[name], manifest.numpy_dtype(found[name].dtype.name)).reshape(
            found[name].full_shape))
  return found
