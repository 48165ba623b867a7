"""Mean and variance; positions along a dimension."""

from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.dims import (
  as_shape,
  axis_number,
  check_tensor,
  find_dims,
  reduced,
  split_axes,
)
from meshkeras.ops.elementwise import aligned
from meshkeras.ops.recording import keep, kept, no_second_derivative
from meshkeras.upstream import mtf, tf

_HALVES = (tf.float16, tf.bfloat16)


def moments(x, reduced_dims, weights=None):
  """Returns the (mean, variance) of x over some dimensions.

  Each processor takes the two of its own part, about its own mean, and the
  parts are combined as Chan, Golub and LeVeque, "Updating formulae and a
  pairwise algorithm for computing sample variances" (1979) do: no
  cancellation, and one exchange. Half precisions are computed in float32.

  Args:
    x: tensor of floating-point type.
    reduced_dims: dimensions of x to reduce over.
    weights: tensor of some of x's dims, how often each position counts (a
      row mask). Default 1. Without gradient. If all are 0, both results
      are 0.

  Dimensions:
    x: [...]
    mean, variance: x's dims without reduced_dims

  When split:
    a reduced dim: one allgather per axis of three values per position of
      the result. In the gradient one allreduce SUM of two values, if their
      gradients are sums not reduced yet.
    another: no traffic.

  Returns: (mean, variance), of x's type, but float32 for half precisions.
  Raises:
    DimensionError: x lacks a dimension of reduced_dims or weights.
    ArgumentError: x is not of floating-point type.

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> x = mtf.zeros(mesh, [("batch", 4), ("hidden", 8)])
    >>> mean, variance = moments(x, ["batch"])
    >>> mean.shape
    Shape[hidden=8]
  """
  check_tensor(x, "moments")
  reduced_dims = find_dims(x, reduced_dims, "moments")
  if not x.dtype.is_floating:
    raise ArgumentError(
        "moments: a tensor of type %s given; floating-point types are "
        "accepted. Cast it." % x.dtype.name)
  if weights is not None:
    extra = [dim for dim in weights.shape.dims if dim not in x.shape.dims]
    if extra:
      raise DimensionError(
          "moments: weights [%s] given; the tensor [%s] lacks [%s]. Reduce "
          "or rename them." % (
              format_dims(weights.shape.dims), format_dims(x.shape.dims),
              format_dims(extra)))
  return tuple(MomentsOperation(x, reduced_dims, weights).outputs)


class MomentsOperation(mtf.Operation):
  """See `moments`."""

  def __init__(self, x, reduced_dims, weights):
    super().__init__([x] if weights is None else [x, weights],
                     name="moments")
    self.reduced_dims = reduced_dims
    shape = mtf.Shape([d for d in x.shape.dims if d not in reduced_dims])
    dtype = tf.float32 if x.dtype in _HALVES else x.dtype
    self._outputs = [mtf.Tensor(self, shape, dtype, index=index)
                     for index in range(2)]

  def gradient(self, grad_ys):
    operation = MomentsGradientOperation(self, grad_ys)
    return operation.outputs + [None] * (len(self.inputs) - 1)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    inputs = [reduced(lowering, x) for x in self.inputs]
    parts = impl.slicewise(self._local, *inputs)
    axes = split_axes(impl, self.reduced_dims)
    for mesh_axis in axes:
      parts = impl.allconcat(parts, mesh_axis, 0)
    slice_shape = impl.slice_shape(self.outputs[0].shape)
    count, mean, variance = impl.slicewise(
        lambda part: _combined(part, slice_shape), parts)
    keep(lowering, self, (inputs, count, mean))
    lowering.set_tensor_lowering(self.outputs[0], mean)
    lowering.set_tensor_lowering(self.outputs[1], variance)

  def _local(self, x, weights=None):
    """Returns [1, 3, ...]: count, mean and sum of squares about it."""
    x = tf.cast(x, self.outputs[0].dtype)
    total = self._weighted_sum(x, weights)
    count = self._count(x, weights)
    mean = tf.math.divide_no_nan(total, count)
    centred = x - aligned(mean, self.outputs[0].shape, self.inputs[0].shape)
    squares = self._weighted_sum(tf.square(centred), weights)
    count = tf.broadcast_to(count, mean.shape)
    return tf.expand_dims(tf.stack([count, mean, squares]), 0)

  def _count(self, x, weights):
    """Returns the sum of the weights, ready to divide the mean's sum."""
    shape, sizes = self.inputs[0].shape, x.shape.as_list()
    weighted = [] if weights is None else self.inputs[1].shape.dims
    count = 1
    for dim in self.reduced_dims:
      if dim not in weighted:
        count *= sizes[axis_number(shape, dim)]
    if weights is None:
      return tf.constant(float(count), x.dtype)
    late = [i for i, dim in enumerate(weighted) if dim in self.reduced_dims]
    summed = tf.cast(weights, x.dtype)
    summed = tf.reduce_sum(summed, late) if late else summed
    rest = mtf.Shape([d for d in weighted if d not in self.reduced_dims])
    return aligned(summed * count, rest, self.outputs[0].shape)

  def _weighted_sum(self, x, weights):
    """Returns the sum of x * weights over the reduced dims."""
    shape = self.inputs[0].shape
    if weights is None:
      return tf.reduce_sum(
          x, [axis_number(shape, dim) for dim in self.reduced_dims])
    # First over the dims that the weights lack, so that the product is of
    # the smaller tensor.
    w_shape = self.inputs[1].shape
    early = [axis_number(shape, dim) for dim in self.reduced_dims
             if dim not in w_shape.dims]
    x = tf.reduce_sum(x, early) if early else x
    left = mtf.Shape([dim for i, dim in enumerate(shape.dims)
                      if i not in early])
    late = [axis_number(left, dim) for dim in self.reduced_dims
            if dim in w_shape.dims]
    weights = aligned(tf.cast(weights, x.dtype), w_shape, left)
    return tf.reduce_sum(x * weights, late) if late else x * weights


def _combined(parts, slice_shape):
  """Returns (count, mean, variance) of parts [n, 3, *slice_shape]."""
  if parts.shape.as_list()[0] == 1:
    count, mean, squares = tf.unstack(parts[0])
  else:
    counts, means, squares = parts[:, 0], parts[:, 1], parts[:, 2]
    count = tf.reduce_sum(counts, 0)
    mean = tf.math.divide_no_nan(tf.reduce_sum(counts * means, 0), count)
    squares = tf.reduce_sum(
        squares + counts * tf.square(means - mean), 0)
  variance = tf.math.divide_no_nan(squares, count)
  return tuple(tf.reshape(t, slice_shape) for t in (count, mean, variance))


class MomentsGradientOperation(mtf.Operation):
  """The gradient of `moments` for x."""

  def __init__(self, forward, grad_ys):
    self._given = [dy is not None for dy in grad_ys]
    x = forward.inputs[0]
    super().__init__([x] + [dy for dy in grad_ys if dy is not None],
                     name="moments_gradient")
    self._forward = forward
    self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

  def gradient(self, grad_ys):
    raise no_second_derivative(self.name)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    forward = self._forward
    inputs, count, mean = kept(lowering, forward)
    x_shape, kept_shape = forward.inputs[0].shape, forward.outputs[0].shape
    given = self._given

    def local(x, count, mean, *rest):
      weights = rest[0] if len(inputs) == 2 else None
      dys = iter(rest[len(inputs) - 1:])
      dmean, dvariance = (next(dys) if has else None for has in given)
      wide = tf.cast(x, mean.dtype)

      def along(t):
        return aligned(tf.math.divide_no_nan(t, count), kept_shape, x_shape)

      dx = 0.0
      if dvariance is not None:
        centred = wide - aligned(mean, kept_shape, x_shape)
        dx = centred * along(2 * dvariance)
      if dmean is not None:
        dx = dx + along(dmean)
      if weights is not None:
        dx = dx * aligned(tf.cast(weights, mean.dtype),
                          forward.inputs[1].shape, x_shape)
      return tf.cast(tf.broadcast_to(dx, x.shape), x.dtype)

    dys = reduced_together(impl, [lowering.tensors[x]
                                  for x in self.inputs[1:]])
    lowering.set_tensor_lowering(self.outputs[0], impl.slicewise(
        local, inputs[0], count, mean, *(inputs[1:] + dys)))


def reduced_together(impl, values):
  """Returns equally shaped lowered tensors reduced, by one collective.

  Args:
    impl: mesh implementation.
    values: list of what a lowering has for them.
  """
  if len(values) < 2 or not mtf.compatible_lazy_allreduce_sums(values):
    return [x.to_laid_out_tensor() for x in values]
  stacked = impl.slicewise(
      lambda *slices: tf.stack(slices), *[x.laid_out_input for x in values])
  total = impl.allreduce(stacked, values[0].mesh_axes, "SUM")
  return list(impl.slicewise(
      lambda t: tuple(tf.unstack(t, len(values))), total))


def index(mesh, dim, dtype=tf.int32):
  """Returns the numbers 0, 1, ... along a dimension.

  Args:
    mesh: mtf.Mesh.
    dim: Dimension.
    dtype: type of the numbers.

  Dimensions:
    result: [dim]

  When split:
    dim: no traffic; each processor has the global positions of its part.
  """
  return IndexOperation(
      mesh, as_shape([dim]), tf.as_dtype(dtype)).outputs[0]


class IndexOperation(mtf.Operation):
  """See `index`."""

  def __init__(self, mesh, shape, dtype):
    super().__init__([], mesh, name="index")
    self._outputs = [mtf.Tensor(self, shape, dtype)]

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    y = self.outputs[0]

    def local(rank):
      return tf.cast(tf.range(*impl.box(y.shape, rank)[0]), y.dtype)

    lowering.set_tensor_lowering(y, impl.slicewise_by_rank(local))
