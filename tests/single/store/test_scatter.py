"""Values given to a store stay what they were."""

import numpy as np

from tests.single.store.test_checkpoint_of_store import make_store


def test_array_that_is_changed_after_scatter_changes_no_variable():
  store = make_store("", "", [("w", (("in", 1000),), "float32")])
  # Wherever memory begins: TensorFlow keeps what is aligned for it.
  memory = np.zeros(4 * 1000 + 128, np.uint8)
  for offset in range(0, 64, 8):
    begin = -memory.ctypes.data % 64 + offset
    value = memory[begin:begin + 4000].view(np.float32)
    value[:] = 1
    store.scatter("w", value)
    value[:] = 2
    assert store.gather("w").max() == 1
