"""The maximum along a dimension and where it is, in one collective."""

from meshkeras.errors import ArgumentError
from meshkeras.ops.dims import (
  axis_number,
  check_tensor,
  find_dim,
  mesh_axis_of,
  reduced,
)
from meshkeras.upstream import mtf, tf

_WORD = 0xFFFFFFFF
_LARGEST = 0x7FFFFFFF


def max_with_index(x, dim, beside=None):
  """Returns the largest value along `dim` and its first position.

  Called again in one graph with the same x and dim it returns the same two
  tensors, so that a loss and a metric share the work. No gradient passes.

  Args:
    x: tensor of floating-point type. NaN counts as larger than any number.
    dim: dimension of x.
    beside: tensor of the same dims whose maximum will be asked for too; the
      two then share one collective.

  Dimensions:
    x, beside: [..., dim, ...]
    maximum, index: the other dims of x

  When split:
    dim: one allreduce MAX of 8 bytes per position of the result, which
      carry value and index in one int64. float64: an allreduce MAX of the
      values, then a MIN of the indices.
    another: no traffic.

  Returns: (maximum, of x's type; index, int32).
  Raises:
    DimensionError: x has no such dimension.
    ArgumentError: x is not of floating-point type.

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> x = mtf.zeros(mesh, [("batch", 4), ("classes", 10)])
    >>> maximum, index = max_with_index(x, "classes")
    >>> index.shape, index.dtype.name
    (Shape[batch=4], 'int32')
    >>> max_with_index(x, "classes")[1] is index
    True
  """
  check_tensor(x, "max_with_index")
  dim = find_dim(x, dim, "max_with_index")
  if not x.dtype.is_floating:
    raise ArgumentError(
        "max_with_index: a tensor of type %s given; floating-point types "
        "are accepted. Cast it." % x.dtype.name)
  # On the graph, so that it lives as long as the tensors do.
  known = x.graph.__dict__.setdefault("meshkeras_max_with_index", {})
  if (x, dim) not in known:
    xs = [x]
    if beside is not None and beside.shape == x.shape and (
        beside.dtype.is_floating and (beside, dim) not in known):
      xs.append(beside)
    outputs = MaxWithIndexOperation(xs, dim).outputs
    for number, asked in enumerate(xs):
      known[asked, dim] = tuple(outputs[2 * number:2 * number + 2])
  return known[x, dim]


class MaxWithIndexOperation(mtf.Operation):
  """See `max_with_index`."""

  def __init__(self, xs, dim):
    super().__init__(xs, name="max_with_index")
    self._dim = dim
    self._outputs = []
    for number, x in enumerate(xs):
      shape = x.shape - dim
      self._outputs += [
          mtf.Tensor(self, shape, x.dtype, index=2 * number),
          mtf.Tensor(self, shape, tf.int32, index=2 * number + 1)]

  @property
  def has_gradient(self):
    return False

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    found = [self._local(impl, lowering, x) for x in self.inputs]
    mesh_axis = mesh_axis_of(impl, self._dim)
    if mesh_axis is not None:
      found = self._over_axis(impl, found, mesh_axis)
    for number, pair in enumerate(found):
      for output, value in zip(self.outputs[2 * number:], pair):
        lowering.set_tensor_lowering(output, value)

  def _local(self, impl, lowering, x):
    """Returns (maximum, its global index) within each slice."""
    axis = axis_number(x, self._dim)

    def local(rank, x_slice):
      begin = impl.box(x.shape, rank)[axis][0]
      index = tf.argmax(x_slice, axis, output_type=tf.int32)
      return tf.reduce_max(x_slice, axis), index + begin if begin else index

    return impl.slicewise_by_rank(local, reduced(lowering, x))

  def _over_axis(self, impl, found, mesh_axis):
    if any(x.dtype == tf.float64 for x in self.inputs):
      return [_two_collectives(impl, maximum, index, mesh_axis,
                               self._dim.size) for maximum, index in found]

    def pack_all(*pairs):
      return tf.stack([pack(value, index)
                       for value, index in zip(pairs[::2], pairs[1::2])])

    keys = impl.allreduce(
        impl.slicewise(pack_all, *[part for pair in found for part in pair]),
        [mesh_axis], "MAX")
    return [
        impl.slicewise(lambda key, i=number, x=x: unpack(key[i], x.dtype), keys)
        for number, x in enumerate(self.inputs)]


def pack(value, index):
  """Returns int64 keys, larger for a larger value or an earlier index.

  Args:
    value: tensor of float32, float16 or bfloat16.
    index: int32 tensor, at least 0.
  """
  value = tf.cast(value, tf.float32)
  bits = tf.bitcast(value, tf.int32)
  # Read as integers, floats of one sign are in order; negative ones, in
  # reverse. -0.0 becomes 0, the same as 0.0.
  ordered = tf.where(bits < 0, -tf.bitwise.bitwise_and(bits, _LARGEST), bits)
  ordered = tf.where(tf.math.is_nan(value),
                     tf.fill(tf.shape(bits), _LARGEST), ordered)
  high = tf.bitwise.left_shift(
      tf.cast(ordered, tf.int64), tf.constant(32, tf.int64))
  return tf.bitwise.bitwise_or(high, _WORD - tf.cast(index, tf.int64))


def unpack(key, dtype):
  """Returns (value of `dtype`, int32 index) of keys that `pack` made."""
  low = tf.bitwise.bitwise_and(key, tf.constant(_WORD, tf.int64))
  ordered = tf.cast(
      tf.bitwise.right_shift(key, tf.constant(32, tf.int64)), tf.int32)
  sign = tf.constant(-_LARGEST - 1, tf.int32)
  bits = tf.where(ordered < 0, tf.bitwise.bitwise_or(-ordered, sign), ordered)
  value = tf.cast(tf.bitcast(bits, tf.float32), dtype)
  return value, tf.cast(_WORD - low, tf.int32)


def _two_collectives(impl, maximum, index, mesh_axis, size):
  best = impl.allreduce(maximum, [mesh_axis], "MAX")

  def candidate(mine, overall, position):
    return tf.where(tf.equal(mine, overall), position,
                    tf.fill(tf.shape(position), size - 1))

  index = impl.allreduce(
      impl.slicewise(candidate, maximum, best, index), [mesh_axis], "MIN")
  return best, index
