"""Floor 9: Keras's habits on named dimensions, meshes and layouts.

The public names, gathered from every floor below; no code. Start with
`import meshkeras as mk` and `from meshkeras import layers`, and read
`models/model.py` first.
"""

from meshkeras import (
    callbacks,
    data,
    errors,
    layers,
    losses,
    metrics,
    models,
    ops,
    optimizers,
    saving,
)
from meshkeras.layers import Input
from meshkeras.mesh import Dimension, Layout, Mesh, announce
from meshkeras.models import Model, Sequential, load_model, set_random_seed
from meshkeras.saving import latest_checkpoint
from meshkeras.version import __version__

__all__ = [
    "Dimension",
    "Input",
    "Layout",
    "Mesh",
    "Model",
    "Sequential",
    "__version__",
    "announce",
    "callbacks",
    "data",
    "errors",
    "latest_checkpoint",
    "layers",
    "load_model",
    "losses",
    "metrics",
    "models",
    "ops",
    "optimizers",
    "saving",
    "set_random_seed",
]
