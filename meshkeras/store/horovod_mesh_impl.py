"""Mesh TensorFlow's mesh implementation over Horovod processes."""

from meshkeras.mesh.collectives import GraphCollectives
from meshkeras.store.mesh_impl_base import (
  MeshImplBase,
  axis_back,
  axis_first,
  lazy_for_split,
  merged,
  padded,
  parted,
  piece_of,
)
from meshkeras.upstream import PlacementMeshImpl, mtf, tf


class HorovodMeshImpl(MeshImplBase, mtf.MeshImpl):
  """One processor per Horovod process: this process holds one slice.

  A LaidOutTensor has one tensor, this process's. Whatever crosses processes
  goes through `collectives`, which names and records it.

  Args:
    mesh: Mesh.
    layout: Layout.
    job: Job; the mesh is registered with it.
    store: VariableStore.
    step: int64 scalar tensor, the optimizer's iteration.
    function: name of the function being lowered.
  """

  LaidOutTensor = PlacementMeshImpl.LaidOutTensor

  def __init__(self, mesh, layout, job, *, store, step, function):
    mtf.MeshImpl.__init__(
        self, mtf.Shape([mtf.Dimension(*axis) for axis in mesh.axes]),
        mtf.LayoutRules(layout.rules))
    self.configure(mesh, layout, store, step)
    self.rank = job.rank
    self.local_ranks = (job.rank,)
    self.collectives = GraphCollectives(job, mesh, function)

  @property
  def devices(self):
    return [""]

  def slicewise(self, fn, *inputs):
    """Returns fn of this process's slices; no traffic."""
    inputs = mtf.convert_args_to_laid_out_tensors(inputs)
    result = fn(*[x.tensor_list[0] if isinstance(x, self.LaidOutTensor)
                  else x for x in inputs])
    if isinstance(result, tuple):
      return tuple(self.LaidOutTensor([part]) for part in result)
    return self.LaidOutTensor([result])

  def Print(self, x, data, message, **kwargs):  # noqa: N802
    """Prints this process's slices to its own stderr, rank first."""
    label = "rank %d %s: %s" % (
        self.rank, self.mesh.coordinates(self.rank), message)
    tensors = [t for d in data for t in d.to_laid_out_tensor().tensor_list]
    return self.slicewise(
        lambda t: tf.Print(t, tensors, label, **kwargs), x)

  def allreduce(self, x, mesh_axes, reduction_fn_string):
    """Returns the SUM, MAX or MIN over the axes: one collective."""
    axes = self._long_axes(mesh_axes)
    if not axes:
      return x.to_laid_out_tensor()
    return self.slicewise(
        lambda t: self.collectives.allreduce(t, axes, reduction_fn_string), x)

  def allsplit(self, x, mesh_axis, split_axis, which=None):
    """Keeps one part; of a sum not yet reduced, by one reduce-scatter."""
    ways = self.shape[mesh_axis].size
    lazy = lazy_for_split(x, mesh_axis)
    if lazy is None or which is not None or ways == 1:
      return mtf.MeshImpl.allsplit(self, x, mesh_axis, split_axis, which)

    def scatter(t):
      part = self.collectives.reduce_scatter(
          axis_first(t, split_axis), self.axis_name(mesh_axis))
      return axis_back(part, split_axis)

    part = self.slicewise(scatter, lazy.laid_out_input)
    rest = [axis for axis in lazy.mesh_axes if axis != mesh_axis]
    return mtf.LazyAllreduceSum(self, part, rest) if rest else part

  def allconcat(self, x, mesh_axis, concat_axis, stack=False):
    """Concatenates, or stacks on a new dim, the slices along an axis."""
    ways = self.shape[mesh_axis].size

    def gather(t):
      if stack:
        t = tf.expand_dims(t, concat_axis)
      if ways == 1:
        return t
      shape = t.shape.as_list()
      if concat_axis == 0 and shape:
        return self.collectives.allgather(t, self.axis_name(mesh_axis))
      stacked = self.collectives.allgather(
          tf.reshape(t, [1] + shape), self.axis_name(mesh_axis))
      return merged(stacked, concat_axis)

    return self.slicewise(gather, x)

  def alltoall(self, x, mesh_axis, split_axis, concat_axis):
    """Splits along one dim, sends the parts, concatenates along another."""
    ways = self.shape[mesh_axis].size
    if ways == 1:
      return x.to_laid_out_tensor()

    def exchange(t):
      parts = parted(t, split_axis, ways)
      received = self.collectives.alltoall(
          parts, self.axis_name(mesh_axis), [1] * ways, ways)
      return merged(received, concat_axis)

    return self.slicewise(exchange, x)

  def receive(self, x, mesh_axis, source_pcoord):
    """Returns the slice of another coordinate, or zeros for None.

    Only processors that need a slice get one; what stays at home is not
    sent.
    """
    here = self.coordinate(self.rank, mesh_axis)
    sends = [int(source == here and target != here)
             for target, source in enumerate(source_pcoord)]
    source = source_pcoord[here]
    moved = any(source not in (None, target)
                for target, source in enumerate(source_pcoord))

    def get(t):
      shape = t.shape.as_list()
      received = None
      if moved:
        outgoing = tf.tile(
            tf.expand_dims(t, 0), [sum(sends)] + [1] * len(shape))
        received = self.collectives.alltoall(
            outgoing, self.axis_name(mesh_axis), sends,
            int(source not in (None, here)))
      if source is None:
        # The receipt of nothing is kept on a data edge, so that this
        # process takes part although it wants zeros.
        result = tf.zeros_like(t)
        return result if received is None else _after(result, received)
      if source == here:
        return t if received is None else _after(t, received)
      return tf.reshape(received, shape)

    return self.slicewise(get, x)

  def export_to_tf_tensor(self, x, laid_out_x):
    """Returns the full tensor, on every process."""
    result = laid_out_x.to_laid_out_tensor()
    for axis, mesh_axis in enumerate(self.tensor_layout(x)):
      if mesh_axis is not None:
        result = self.allconcat(result, mesh_axis, axis)
    return result.tensor_list[0]

  def import_tf_tensor(self, x, tf_x):
    """Returns this process's part of a full tensor."""
    begins = [begin for begin, _ in self.box(x.shape, self.rank)]
    sizes = self.slice_shape(x.shape)
    if sizes == [d.size for d in x.shape.dims]:
      return self.LaidOutTensor([tf_x])
    return self.LaidOutTensor([tf.slice(tf_x, begins, sizes)])

  def _long_axes(self, mesh_axes):
    return tuple(self.axis_name(axis) for axis in sorted(mesh_axes)
                 if self.shape[axis].size > 1)

  def _fetch(self, x, mesh_axis, tensor_axis, plan, fill):
    here = 0 if mesh_axis is None else self.coordinate(self.rank, mesh_axis)

    def fetch(t):
      own, received = self._own_and_received(
          t, mesh_axis, tensor_axis, plan, here)
      low = sum(plan.piece_size(here, source) for source in range(here))
      high = low + sum(plan.piece_size(here, source)
                       for source in range(here + 1, len(plan.pieces)))
      parts = [piece_of(received, tensor_axis, 0, low)] if low else []
      parts += [own] if own is not None else []
      if high > low:
        parts.append(piece_of(received, tensor_axis, low, high))
      if not parts:  # only positions outside the tensor are wanted here
        parts = [piece_of(t, tensor_axis, 0, 0)]
      whole = tf.concat(parts, tensor_axis) if len(parts) != 1 else parts[0]
      whole = padded(whole, tensor_axis, plan.before[here], plan.after[here],
                     fill)
      unread = received is not None and high == 0
      return _after(whole, received) if unread else whole

    return self.slicewise(fetch, x)

  def _own_and_received(self, t, mesh_axis, tensor_axis, plan, here):
    """Returns (the wanted part of t or None, what the others sent)."""
    begin = here * t.shape.as_list()[tensor_axis]
    own = plan.pieces[here][here]
    if own is not None:
      own = piece_of(t, tensor_axis, own[0] - begin, own[1] - begin)
    if not plan.communicates:
      return own, None
    ways = len(plan.pieces)
    outgoing = [
        piece_of(t, tensor_axis, piece[0] - begin, piece[1] - begin)
        for target in range(ways)
        for piece in [plan.pieces[target][here]]
        if piece is not None and target != here]
    if not outgoing:
      outgoing = [piece_of(t, tensor_axis, 0, 0)]
    sent = axis_first(
        tf.concat(outgoing, tensor_axis) if len(outgoing) > 1
        else outgoing[0], tensor_axis)
    splits = [plan.piece_size(target, here) if target != here else 0
              for target in range(ways)]
    num_received = sum(plan.piece_size(here, source)
                       for source in range(ways) if source != here)
    received = self.collectives.alltoall(
        sent, self.axis_name(mesh_axis), splits, num_received)
    return own, axis_back(received, tensor_axis)

  def _return(self, dy, mesh_axis, tensor_axis, plan, ranges):
    ways = len(plan.pieces)
    here = 0 if mesh_axis is None else self.coordinate(self.rank, mesh_axis)

    def give_back(t):
      block = plan.size // ways
      begin = ranges[here][0]

      def part_for(owner):
        piece = plan.pieces[here][owner]
        return piece_of(t, tensor_axis, piece[0] - begin, piece[1] - begin)

      incoming = []
      if plan.pieces[here][here] is not None:
        low, high = plan.pieces[here][here]
        incoming.append(padded(part_for(here), tensor_axis,
                               low - here * block, (here + 1) * block - high))
      if plan.communicates:
        incoming += self._returned(
            t, mesh_axis, tensor_axis, plan, (here, block, part_for))
      if not incoming:
        shape = t.shape.as_list()
        shape[tensor_axis] = block
        return tf.zeros(shape, t.dtype)
      return tf.add_n(incoming) if len(incoming) > 1 else incoming[0]

    return self.slicewise(give_back, dy)

  def _returned(self, t, mesh_axis, tensor_axis, plan, where):
    """Returns the blocks that the other processors give back to this one."""
    here, block, part_for = where
    ways = len(plan.pieces)
    others = [k for k in range(ways) if k != here]
    outgoing = [part_for(k) for k in others
                if plan.pieces[here][k] is not None]
    if not outgoing:
      outgoing = [piece_of(t, tensor_axis, 0, 0)]
    sent = axis_first(
        tf.concat(outgoing, tensor_axis) if len(outgoing) > 1
        else outgoing[0], tensor_axis)
    splits = [plan.piece_size(here, k) if k != here else 0
              for k in range(ways)]
    num_received = sum(plan.piece_size(k, here) for k in others)
    received = axis_back(self.collectives.alltoall(
        sent, self.axis_name(mesh_axis), splits, num_received), tensor_axis)
    if num_received == 0:
      shape = t.shape.as_list()
      shape[tensor_axis] = block
      return [_after(tf.zeros(shape, t.dtype), received)]
    blocks, position = [], 0
    for k in others:
      piece = plan.pieces[k][here]
      if piece is None:
        continue
      length = piece[1] - piece[0]
      blocks.append(padded(
          piece_of(received, tensor_axis, position, position + length),
          tensor_axis, piece[0] - here * block,
          (here + 1) * block - piece[1]))
      position += length
    return blocks


def _after(value, dependency):
  """Returns value, on a data edge from `dependency`, which has no elements.

  TensorFlow's graph optimiser drops a collective that hangs on a control
  edge alone; the dependency's size is unknown to it, so a slice that begins
  there keeps the collective in the graph.
  """
  shape = value.shape.as_list()
  flat = tf.reshape(value, [-1])[tf.size(dependency):]
  return tf.reshape(flat, shape)
