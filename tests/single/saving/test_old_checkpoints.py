"""Checkpoints of every format version so far still load.

tests/goldens/checkpoint_v<n> was made by `small_model.make`, fitted for two
epochs on a simulated mesh of 2 x 2.
"""

import pathlib
import zlib

import pytest

import meshkeras as mk
from meshkeras.saving import reading
from tests.single.saving import small_model

GOLDENS = pathlib.Path(__file__).parents[2] / "goldens"
# {version: CRC-32 of all full values in the order of names}
CHECKSUMS = {1: 2207333135}


@pytest.mark.parametrize("version", sorted(CHECKSUMS))
def test_checkpoint_of_each_format_version_loads(version):
  path = str(GOLDENS / ("checkpoint_v%d" % version))
  reading.verify(path)
  model = mk.load_model(path)
  found = 0
  for _, value in sorted(small_model.variables(model).items()):
    found = zlib.crc32(value.tobytes(), found)
  assert found == CHECKSUMS[version]
  assert model.iterations == 10
  model.restore(path)
  assert small_model.fit(model, 3).epoch == [0, 1, 2]
