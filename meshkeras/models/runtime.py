"""Where a compiled model runs: one graph, one session, one store."""

from meshkeras.layers.layer import BATCH
from meshkeras.mesh import host_collectives
from meshkeras.mesh.process_sets import current_job
from meshkeras.mesh.sessions import session_config
from meshkeras.mesh.shutdown import leave_together
from meshkeras.store import HorovodMeshImpl, SimulatedMeshImpl, VariableStore
from meshkeras.upstream import tf


class Runtime:
  """The mesh, the layout, and the TensorFlow graph that all functions share.

  Args:
    mesh: Mesh.
    layout: Layout, checked against the model.
    seed: of initial values, dropout and row order.

  Called by: every process.

  Raises:
    MeshError: the job has another number of processes than the mesh.
    ProcessSetError: the processes differ in mesh, layout or seed.
  """

  def __init__(self, mesh, layout, seed):
    self.job = current_job()
    self.job.check_mesh(mesh)
    leave_together()
    # Before the process sets are made: another mesh has others, and Horovod
    # would wait for all to make the same.
    host_collectives.check_equal(
        "compile: mesh, layout or seed", [str(mesh), str(layout), seed])
    self.job.register(mesh)
    self.mesh, self.layout, self.seed = mesh, layout, seed
    self.local_ranks = (
        tuple(range(mesh.size)) if mesh.simulate else (self.job.rank,))
    self.graph = tf.Graph()
    self.session = tf.Session(
        graph=self.graph, config=session_config(self.job))
    self.store = VariableStore(
        mesh, layout, self.local_ranks, self.graph, self.session, seed)

  @property
  def batch_ways(self):
    """Processors along the axis that splits the batch, 1 if none does."""
    axis = self.layout.axis_of(BATCH)
    return 1 if axis is None else self.mesh.axis_size(axis)

  def mesh_impl(self, function, step):
    """Returns the mesh implementation for one function's lowering.

    Args:
      function: its name, as "train_128".
      step: int64 scalar tensor, the optimizer's iteration.
    """
    if self.mesh.simulate or self.job.size == 1:
      return SimulatedMeshImpl(
          self.mesh, self.layout, store=self.store, step=step)
    return HorovodMeshImpl(
        self.mesh, self.layout, self.job, store=self.store, step=step,
        function=function)

  def close(self):
    """Frees the session and what its variables hold."""
    self.session.close()
