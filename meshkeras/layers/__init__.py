"""Floor 4: layers, maths by dimension name.

One layer per file, with what they share: weights, initial values,
activations and the context of a call; they use `ops` and the floors below.
Read `layer.py` first.
"""

from meshkeras.layers.activation import Activation
from meshkeras.layers.average_pooling2d import AveragePooling2D
from meshkeras.layers.batch_normalization import BatchNormalization
from meshkeras.layers.configured import look_up
from meshkeras.layers.context import CallContext
from meshkeras.layers.conv2d import Conv2D
from meshkeras.layers.dense import Dense
from meshkeras.layers.dropout import Dropout
from meshkeras.layers.embedding import Embedding
from meshkeras.layers.flatten import Flatten
from meshkeras.layers.global_average_pooling2d import GlobalAveragePooling2D
from meshkeras.layers.input import Input
from meshkeras.layers.layer import Layer, name_layers
from meshkeras.layers.layer_normalization import LayerNormalization
from meshkeras.layers.max_pooling2d import MaxPooling2D
from meshkeras.layers.weight import Weight

__all__ = [
    "Activation",
    "AveragePooling2D",
    "BatchNormalization",
    "CallContext",
    "Conv2D",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePooling2D",
    "Input",
    "Layer",
    "LayerNormalization",
    "MaxPooling2D",
    "Weight",
    "get",
    "name_layers",
]

_KNOWN = {cls.__name__: cls for cls in (
    Activation, AveragePooling2D, BatchNormalization, Conv2D, Dense, Dropout,
    Embedding, Flatten, GlobalAveragePooling2D, Input, LayerNormalization,
    MaxPooling2D)}


def get(identifier):
  """Returns a layer by config, or as it is.

  Args:
    identifier: {"class_name", "config"}, or a Layer.

  Raises:
    ArgumentError: the class is not known.

  Example:
    >>> get({"class_name": "Dense", "config": {"units": 3}}).units
    3
  """
  return look_up("layer", identifier, _KNOWN)
