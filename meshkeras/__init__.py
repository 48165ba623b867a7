"""Keras's habits on named dimensions, meshes and layouts.

    import meshkeras as mk
    from meshkeras import layers
"""

from meshkeras import (
    callbacks, data, errors, layers, losses, metrics, models, ops, optimizers)
from meshkeras.layers import Input
from meshkeras.mesh import Dimension, Layout, Mesh
from meshkeras.models import Model, Sequential, set_random_seed
from meshkeras.version import __version__

__all__ = [
    "Dimension",
    "Input",
    "Layout",
    "Mesh",
    "Model",
    "Sequential",
    "__version__",
    "callbacks",
    "data",
    "errors",
    "layers",
    "losses",
    "metrics",
    "models",
    "ops",
    "optimizers",
    "set_random_seed",
]
