"""Floor 3: functions of distributed tensors, by dimension name.

What Mesh TensorFlow lacks or gets wrong, each with its gradient and its
lowering; it uses `store`, `mesh`, `errors` and `upstream`, and layers,
losses and custom code use it. Read `elementwise.py` first, then
`recording.py`, on which most gradients rest.
"""

from meshkeras.ops.argmax import max_with_index
from meshkeras.ops.conv import conv2d
from meshkeras.ops.cross_entropy import (
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from meshkeras.ops.elementwise import broadcast, elementwise
from meshkeras.ops.gather import gather
from meshkeras.ops.linear import bias_add, matmul
from meshkeras.ops.pool import avg_pool2d, max_pool2d
from meshkeras.ops.random import dropout_mask, random_uniform
from meshkeras.ops.reduce import index, moments
from meshkeras.ops.reshape import rename, reshape
from meshkeras.ops.softmax import log_softmax, softmax
from meshkeras.ops.update import UpdateOperation, apply_update
from meshkeras.ops.window import WindowSpec, output_size, window

__all__ = [
    "UpdateOperation",
    "WindowSpec",
    "apply_update",
    "avg_pool2d",
    "bias_add",
    "broadcast",
    "conv2d",
    "dropout_mask",
    "elementwise",
    "gather",
    "index",
    "log_softmax",
    "matmul",
    "max_pool2d",
    "max_with_index",
    "moments",
    "output_size",
    "random_uniform",
    "rename",
    "reshape",
    "softmax",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
    "window",
]
