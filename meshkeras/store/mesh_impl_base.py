"""What the two mesh implementations share, as a mix-in."""

from meshkeras.errors import InternalError
from meshkeras.mesh import slices
from meshkeras.store import counter_random
from meshkeras.store.laid_out_variable import LoweredVariable
from meshkeras.store.ranges import plan_ranges
from meshkeras.upstream import mtf, tf


class MeshImplBase:
  """Meshkeras's additions to mtf.MeshImpl.

  A subclass sets, before anything is lowered: `mesh`, `layout`, `store`,
  `seed`, `step` (int64 scalar tensor), `local_ranks`.
  """

  def configure(self, mesh, layout, store, step):
    """Sets the attributes that every implementation has."""
    self.mesh = mesh
    self.layout = layout
    self.store = store
    self.seed = store.seed if store is not None else 0
    self.step = step
    self._num_random = 0

  def LaidOutVariable(self, variable, mesh_impl):  # noqa: N802
    """Mesh TF's hook: the stored slices of an mtf.Variable."""
    return LoweredVariable(mesh_impl.store.laid_out(variable), mesh_impl)

  def box(self, shape, rank):
    """Returns the box of an mtf.Shape that processor `rank` holds."""
    return slices.slice_box(
        [(d.name, d.size) for d in shape.dims], self.layout, self.mesh, rank)

  def axis_name(self, mesh_axis):
    """Returns the name of Mesh TF's mesh axis number."""
    return self.shape[mesh_axis].name

  def coordinate(self, rank, mesh_axis):
    """Returns the position of `rank` along mesh axis number `mesh_axis`."""
    return self.mesh.coordinates(rank)[self.axis_name(mesh_axis)]

  def slicewise_by_rank(self, fn, *inputs):
    """As `slicewise`, calling fn(rank, *slices) with rank a Python int."""
    return self.slicewise(fn, self.laid_out_pnum(), *inputs)

  def laid_out_pnum(self):
    """Returns each local processor's number, as Python ints."""
    return self.LaidOutTensor(list(self.local_ranks))

  def laid_out_pcoord(self, mesh_axis):
    """Returns each local processor's coordinate, as Python ints."""
    return self.LaidOutTensor(
        [self.coordinate(rank, mesh_axis) for rank in self.local_ranks])

  def broadcast_impl(self, old_slices, old_shape, new_shape):
    """Broadcast by name; unlike upstream's, of any type, bool included."""
    new_slice_shape = self.slice_shape(new_shape)
    order = [d for d in new_shape.dims if d in old_shape.dims]
    permutation = [old_shape.dims.index(d) for d in order]
    expanded = [size if d in old_shape.dims else 1
                for d, size in zip(new_shape.dims, new_slice_shape)]

    def tf_fn(x):
      if permutation != sorted(permutation):
        x = tf.transpose(x, permutation)
      return tf.broadcast_to(tf.reshape(x, expanded), new_slice_shape)

    return self.slicewise(tf_fn, old_slices)

  def random(self, shape, tf_fn, kwargs):
    """Mesh TF's random operations, as a function of global position.

    `tf.random.uniform` and `tf.random.normal` are known by name; values
    change with the step and never with the layout.
    """
    self._num_random += 1
    key = counter_random.make_key(
        self.seed, "%s/%d" % (kwargs.get("name", "random"), self._num_random))
    kind = getattr(tf_fn, "__name__", "")
    sizes = [d.size for d in shape.dims]

    def draw(rank):
      box = self.box(shape, rank)
      uniform = counter_random.tf_uniform(key, self.step, sizes, box)
      if "normal" in kind:
        other = counter_random.tf_uniform(key ^ 1, self.step, sizes, box)
        return _to_normal(uniform, other, kwargs)
      return _to_uniform(uniform, kwargs)

    return self.slicewise_by_rank(draw)

  def fetch_ranges(self, x, mesh_axis, tensor_axis, ranges, fill=0):
    """Returns, on each processor, the positions it wants of a dimension.

    Args:
      x: laid-out tensor.
      mesh_axis: Mesh TF's axis number, or None if the dimension is not
        split; then `ranges` has one entry.
      tensor_axis: which dimension of x.
      ranges: per coordinate (begin, end), equally long; positions outside
        the tensor have the value `fill`.

    When split: one alltoall that carries the missing positions only, and
      none if no processor misses any.
    """
    ways = 1 if mesh_axis is None else self.shape[mesh_axis].size
    size = x.to_laid_out_tensor().slice_shape[tensor_axis] * ways
    if len(ranges) != ways:
      raise InternalError(
          "fetch_ranges: %d ranges for %d processors" % (len(ranges), ways))
    plan = plan_ranges(ranges, size)
    return self._fetch(x, mesh_axis, tensor_axis, plan, fill)

  def return_ranges(self, dy, mesh_axis, tensor_axis, ranges, size):
    """The adjoint of `fetch_ranges`: adds each position at its owner.

    Args:
      dy: laid-out tensor that covers `ranges` along `tensor_axis`.
      mesh_axis: as in `fetch_ranges`.
      tensor_axis: which dimension of dy.
      ranges: as in `fetch_ranges`.
      size: the dimension's full size.

    When split: one alltoall, as `fetch_ranges`.
    """
    plan = plan_ranges(ranges, size)
    return self._return(dy, mesh_axis, tensor_axis, plan, ranges)


def piece_of(x, axis, begin, end):
  """Returns x[..., begin:end, ...] along `axis`, positions local to x."""
  length = x.shape.as_list()[axis]
  if (begin, end) == (0, length):
    return x
  index = [slice(None)] * axis + [slice(begin, end)]
  return x[tuple(index)]


def padded(x, axis, before, after, fill=0):
  """Returns x with `before` and `after` positions of `fill` along `axis`."""
  if not before and not after:
    return x
  paddings = [[0, 0]] * len(x.shape)
  paddings[axis] = [before, after]
  return tf.pad(x, paddings, constant_values=tf.cast(fill, x.dtype))


def axis_first(x, axis):
  """Returns x with dimension `axis` moved to the front."""
  if axis == 0:
    return x
  ndims = len(x.shape)
  return tf.transpose(
      x, [axis] + [i for i in range(ndims) if i != axis])


def axis_back(x, axis):
  """Undoes `axis_first`."""
  if axis == 0:
    return x
  ndims = len(x.shape)
  return tf.transpose(
      x, list(range(1, axis + 1)) + [0] + list(range(axis + 1, ndims)))


def merged(stacked, axis):
  """Returns [n, ...] with n merged in front of dimension `axis` of a part."""
  shape = stacked.shape.as_list()
  moved = axis_back(stacked, axis)
  return tf.reshape(
      moved, shape[1:axis + 1] + [shape[0] * shape[axis + 1]]
      + shape[axis + 2:])


def parted(x, axis, ways):
  """Returns [ways, ...]: x cut into equal parts along `axis`, stacked."""
  shape = x.shape.as_list()
  cut = tf.reshape(
      x, shape[:axis] + [ways, shape[axis] // ways] + shape[axis + 1:])
  return axis_first(cut, axis)


def _to_uniform(uniform, kwargs):
  dtype = tf.as_dtype(kwargs.get("dtype", tf.float32))
  low, high = kwargs.get("minval", 0), kwargs.get("maxval", None)
  high = 1 if high is None else high
  if dtype.is_integer:
    span = tf.cast(high - low, tf.float32)
    return tf.cast(tf.floor(uniform * span), dtype) + tf.cast(low, dtype)
  return tf.cast(uniform, dtype) * tf.cast(high - low, dtype) + (
      tf.cast(low, dtype))


def _to_normal(uniform, other, kwargs):
  dtype = tf.as_dtype(kwargs.get("dtype", tf.float32))
  radius = tf.sqrt(-2.0 * tf.math.log(1.0 - uniform))
  normal = radius * tf.cos(6.283185307179586 * other)
  return tf.cast(normal, dtype) * tf.cast(kwargs.get("stddev", 1.0), dtype) + (
      tf.cast(kwargs.get("mean", 0.0), dtype))


def lazy_for_split(x, mesh_axis):
  """Returns x if it is a sum not yet reduced over `mesh_axis`, else None."""
  if (isinstance(x, mtf.LazyAllreduceSum) and mesh_axis in x.mesh_axes
      and not getattr(x, "_reduced", None)):
    return x
  return None
