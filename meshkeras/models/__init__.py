"""Floor 7: what the user holds.

Sequential and Model, the Program (the order of building one function) and
the loops of fit, evaluate and predict; it uses every floor below. Read
`program.py` first.
"""

from meshkeras.models.hooks import Callback, CallbackList, History
from meshkeras.models.loading import load_model
from meshkeras.models.model import Model
from meshkeras.models.seeds import set_random_seed
from meshkeras.models.sequential import Sequential

__all__ = [
    "Callback",
    "CallbackList",
    "History",
    "Model",
    "Sequential",
    "load_model",
    "set_random_seed",
]
