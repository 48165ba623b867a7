"""Floor 1: names, sizes and positions.

Dimension, Mesh, Layout and slice arithmetic are pure Python; process sets
and collectives are the only files that call Horovod. This floor uses
`errors` and `upstream` alone. Read `mesh.py` first.
"""

from meshkeras.mesh.dimension import Dimension
from meshkeras.mesh.layout import Layout
from meshkeras.mesh.mesh import Mesh
from meshkeras.mesh.screen import announce

__all__ = ["Dimension", "Layout", "Mesh", "announce"]
