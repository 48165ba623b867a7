"""Floor 5: which examples a process reads.

The user's arrays are checked here and read here, batch by batch and slice
by slice, with NumPy alone; no file imports TensorFlow. This floor uses
`errors` only. Read `sources.py` first, then `batching.py`.
"""

from meshkeras.data.batching import (
    BatchReader,
    RowOrder,
    num_steps,
    padded_batch_size,
    permutation,
    steps_to_run,
)
from meshkeras.data.prefetch import Prefetcher
from meshkeras.data.sources import (
    ArraySource,
    OnesSource,
    check_row_counts,
    cut_validation,
)
from meshkeras.data.weights import ClassWeightSource, ProductSource, row_weights

__all__ = [
    "ArraySource",
    "BatchReader",
    "ClassWeightSource",
    "OnesSource",
    "Prefetcher",
    "ProductSource",
    "RowOrder",
    "check_row_counts",
    "cut_validation",
    "num_steps",
    "padded_batch_size",
    "permutation",
    "row_weights",
    "steps_to_run",
]
