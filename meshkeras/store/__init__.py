"""Floor 2: where weights live and how Mesh TensorFlow runs on processes.

LaidOutVariable, VariableStore, random values by global position and the two
mesh implementations; it uses `mesh`, `errors` and `upstream`. Read
`variable_store.py` first.
"""

from meshkeras.store.horovod_mesh_impl import HorovodMeshImpl
from meshkeras.store.laid_out_variable import LaidOutVariable
from meshkeras.store.simulated_mesh_impl import SimulatedMeshImpl
from meshkeras.store.variable_store import VariableStore

__all__ = [
    "HorovodMeshImpl",
    "LaidOutVariable",
    "SimulatedMeshImpl",
    "VariableStore",
]
