"""Floor 5: which examples a process reads.

The user's arrays are checked here and read here, batch by batch and slice
by slice, with NumPy alone; no file imports TensorFlow. This floor uses
`errors` only. Read `sources.py` first, then `batching.py`.
"""

from meshkeras.data.batching import BatchReader
from meshkeras.data.batching import RowOrder
from meshkeras.data.batching import num_steps
from meshkeras.data.batching import padded_batch_size
from meshkeras.data.batching import permutation
from meshkeras.data.prefetch import Prefetcher
from meshkeras.data.sources import ArraySource
from meshkeras.data.sources import OnesSource
from meshkeras.data.sources import check_row_counts
from meshkeras.data.sources import cut_validation
from meshkeras.data.weights import ClassWeightSource
from meshkeras.data.weights import ProductSource
from meshkeras.data.weights import row_weights

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
]
