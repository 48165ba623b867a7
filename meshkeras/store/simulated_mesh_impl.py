"""Every processor of a mesh inside one process."""

from meshkeras.store.mesh_impl_base import (
  MeshImplBase,
  merged,
  padded,
  parted,
  piece_of,
)
from meshkeras.upstream import PlacementMeshImpl, mtf, tf


class SimulatedMeshImpl(MeshImplBase, PlacementMeshImpl):
  """Mesh TF's placement implementation on this process's own devices.

  A LaidOutTensor has one tensor per processor, so that a layout can be
  tried, and tested, without a launcher. The same interface and results as
  HorovodMeshImpl.

  Args:
    mesh: Mesh.
    layout: Layout.
    store: VariableStore.
    step: int64 scalar tensor, the optimizer's iteration.
  """

  def __init__(self, mesh, layout, *, store, step):
    PlacementMeshImpl.__init__(
        self, mtf.Shape([mtf.Dimension(*axis) for axis in mesh.axes]),
        mtf.LayoutRules(layout.rules), [""] * mesh.size)
    self.configure(mesh, layout, store, step)
    self.local_ranks = tuple(range(mesh.size))
    self.collectives = None

  def LaidOutVariable(self, variable, mesh_impl):  # noqa: N802
    return MeshImplBase.LaidOutVariable(self, variable, mesh_impl)

  def random(self, shape, tf_fn, kwargs):
    return MeshImplBase.random(self, shape, tf_fn, kwargs)

  def allreduce(self, x, mesh_axes, reduction_fn_string):
    """Returns the SUM, MAX or MIN over the axes, added in rank order."""
    mesh_axes = [a for a in mesh_axes if self.shape[a].size > 1]
    dtype = x.to_laid_out_tensor().tensor_list[0].dtype
    half = dtype in (tf.bfloat16, tf.float16)
    combine = _combiner(dtype, reduction_fn_string)

    def reduce_group(tensors, unused_devices):
      if half:
        tensors = [tf.cast(t, tf.float32) for t in tensors]
      total = tensors[0]
      for t in tensors[1:]:
        total = combine(total, t)
      return [tf.cast(total, dtype) if half else total] * len(tensors)

    return self._collective_with_groups(x, mesh_axes, reduce_group)

  def allconcat(self, x, mesh_axis, concat_axis, stack=False):
    """Concatenates, or stacks on a new dim, the slices along an axis."""
    def gather_group(tensors, unused_devices):
      joined = (tf.stack if stack else tf.concat)(tensors, concat_axis)
      return [joined] * len(tensors)

    return self._collective_with_groups(x, [mesh_axis], gather_group)

  def alltoall(self, x, mesh_axis, split_axis, concat_axis):
    """Splits along one dim, sends the parts, concatenates along another."""
    ways = self.shape[mesh_axis].size

    def exchange(tensors, unused_devices):
      parts = [parted(t, split_axis, ways) for t in tensors]
      return [merged(tf.stack([part[target] for part in parts]), concat_axis)
              for target in range(ways)]

    return self._collective_with_groups(x, [mesh_axis], exchange)

  def _fetch(self, x, mesh_axis, tensor_axis, plan, fill):
    def fetch_group(tensors, unused_devices):
      block = tensors[0].shape.as_list()[tensor_axis]
      fetched = []
      for target, sources in enumerate(plan.pieces):
        parts = [
            piece_of(tensors[source], tensor_axis, piece[0] - source * block,
                     piece[1] - source * block)
            for source, piece in enumerate(sources) if piece is not None]
        whole = tf.concat(parts, tensor_axis) if parts else (
            piece_of(tensors[target], tensor_axis, 0, 0))
        fetched.append(padded(whole, tensor_axis, plan.before[target],
                              plan.after[target], fill))
      return fetched

    return self._in_groups(x, mesh_axis, fetch_group)

  def _return(self, dy, mesh_axis, tensor_axis, plan, ranges):
    def return_group(tensors, unused_devices):
      block = plan.size // len(tensors)
      owned = [[] for _ in tensors]
      for target, sources in enumerate(plan.pieces):
        begin = ranges[target][0]
        for owner, piece in enumerate(sources):
          if piece is not None:
            owned[owner].append(padded(
                piece_of(tensors[target], tensor_axis, piece[0] - begin,
                         piece[1] - begin),
                tensor_axis, piece[0] - owner * block,
                (owner + 1) * block - piece[1]))
      shape = tensors[0].shape.as_list()
      shape[tensor_axis] = block
      return [tf.add_n(parts) if parts else tf.zeros(shape, tensors[0].dtype)
              for parts in owned]

    return self._in_groups(dy, mesh_axis, return_group)

  def _in_groups(self, x, mesh_axis, collective):
    if mesh_axis is not None:
      return self._collective_with_groups(x, [mesh_axis], collective)
    return self.slicewise(lambda t: collective([t], None)[0], x)


def _combiner(dtype, reduction):
  if dtype == tf.bool:
    return {"MAX": tf.logical_or, "MIN": tf.logical_and}[reduction]
  return mtf.binary_reduction_fn(reduction)
