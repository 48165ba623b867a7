"""Softmax cross entropy; the class dimension may be split."""

from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.argmax import max_with_index
from meshkeras.ops.dims import (
  axis_number,
  check_tensor,
  find_dim,
  mesh_axis_of,
  partial_axes,
  reduced,
  sum_over,
)
from meshkeras.ops.gather import local_numbers
from meshkeras.ops.recording import Recording, keep, kept, no_second_derivative
from meshkeras.ops.softmax import shift
from meshkeras.upstream import mtf, tf

_HALVES = (tf.float16, tf.bfloat16)


def softmax_cross_entropy(logits, labels, class_dim):
  """Returns -sum over class of labels * log softmax(logits).

  Exact for logits of 1e4 and more, of both signs. Half precisions are
  computed in float32. As in TensorFlow, the gradient for the logits is
  right if the labels of a row add up to 1.

  Args:
    logits: tensor of floating-point type.
    labels: tensor of the same dims: one-hot or probabilities.
    class_dim: dimension of both.

  Dimensions:
    logits, labels: [..., class_dim, ...]
    result: the other dims of logits

  When split:
    class_dim: two allreduces: the one of `max_with_index(logits,
      class_dim)`, shared with whoever calls that, and a SUM of three values
      per position of the result. None in the gradient.
    another: no traffic; TensorFlow's fused kernel.

  Returns: loss, of the logits' type, but float32 for half precisions.
  Raises:
    DimensionError: class_dim is missing, or labels have other dims.
    ArgumentError: the logits are not of floating-point type.
  """
  class_dim = _check_logits(logits, labels, class_dim,
                            "softmax_cross_entropy")
  labels = _in_order(labels, logits.shape, "softmax_cross_entropy")
  return _cross_entropy(logits, labels, class_dim)


def sparse_softmax_cross_entropy(logits, labels, class_dim):
  """Returns -log softmax(logits) at the class that each label numbers.

  Exact for logits of 1e4 and more, of both signs. Half precisions are
  computed in float32.

  Args:
    logits: tensor of floating-point type.
    labels: tensor of int32 or int64, in [0, classes); check it before: for
      others the result has no meaning.
    class_dim: dimension of the logits.

  Dimensions:
    logits: [..., class_dim, ...]
    labels, result: the other dims of logits

  When split:
    class_dim: two allreduces: the one of `max_with_index(logits,
      class_dim)`, shared with whoever calls that, and a SUM of two values
      per position of the result. None in the gradient.
    another: no traffic; TensorFlow's fused kernel.

  Returns: loss, of the logits' type, but float32 for half precisions.
  Raises:
    DimensionError: class_dim is missing, or labels have other dims.
    ArgumentError: the logits are not of floating-point type, or the labels
      no integers.

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> logits = mtf.zeros(mesh, [("batch", 4), ("classes", 10)])
    >>> labels = mtf.zeros(mesh, [("batch", 4)], tf.int32)
    >>> sparse_softmax_cross_entropy(logits, labels, "classes").shape
    Shape[batch=4]
  """
  where = "sparse_softmax_cross_entropy"
  class_dim = _check_logits(logits, labels, class_dim, where)
  if labels.dtype not in (tf.int32, tf.int64):
    raise ArgumentError(
        "%s: labels of type %s given; int32 and int64 are accepted. Cast "
        "them." % (where, labels.dtype.name))
  labels = _in_order(labels, logits.shape - class_dim, where)
  return _cross_entropy(logits, labels, class_dim)


def _cross_entropy(logits, labels, class_dim):
  maximum, _ = max_with_index(logits, class_dim)
  return CrossEntropyOperation(logits, labels, maximum, class_dim).outputs[0]


class CrossEntropyOperation(mtf.Operation):
  """See `softmax_cross_entropy`; labels without the class dim are sparse."""

  def __init__(self, logits, labels, maximum, class_dim):
    super().__init__([logits, labels, maximum], name="cross_entropy")
    self.class_dim = class_dim
    dtype = tf.float32 if logits.dtype in _HALVES else logits.dtype
    self._outputs = [mtf.Tensor(self, logits.shape - class_dim, dtype)]

  @property
  def sparse(self):
    return self.class_dim not in self.inputs[1].shape.dims

  def gradient(self, grad_ys):
    return CrossEntropyGradientOperation(self, grad_ys[0]).input_gradients()

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    logits, labels, maximum = (
        lowering.tensors[x] for x in self.inputs)
    mesh_axis = mesh_axis_of(impl, self.class_dim)
    if mesh_axis is None:
      recording = Recording(impl, self._fused)
      keep(lowering, self, recording)
      loss = recording.run(
          logits.to_laid_out_tensor(), labels.to_laid_out_tensor())
    else:
      loss = self._lower_split(
          lowering, logits, labels.to_laid_out_tensor(), maximum, mesh_axis)
    lowering.set_tensor_lowering(self.outputs[0], loss)

  def _fused(self, unused_rank, logits, labels):
    axis = axis_number(self.inputs[0], self.class_dim)
    sizes = logits.shape.as_list()
    rows = rows_of_classes(tf.cast(logits, self.outputs[0].dtype), axis)
    if self.sparse:
      loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
          labels=tf.reshape(labels, [-1]), logits=rows)
    else:
      loss = tf.raw_ops.SoftmaxCrossEntropyWithLogits(
          features=rows,
          labels=rows_of_classes(tf.cast(labels, rows.dtype), axis))[0]
    return tf.reshape(loss, sizes[:axis] + sizes[axis + 1:])

  def _lower_split(self, lowering, logits, labels, maximum, mesh_axis):
    impl = lowering.mesh_impl(self)
    shape = self.inputs[0].shape
    axis = axis_number(shape, self.class_dim)
    sparse = self.sparse

    def sums(rank, shifted, exponential, labels_slice):
      total = tf.reduce_sum(exponential, axis)
      if sparse:
        numbers, mine = local_numbers(impl, shape, axis, rank, labels_slice)
        return tf.stack([total, picked(shifted, numbers, mine, axis)])
      weights = tf.cast(labels_slice, shifted.dtype)
      return tf.stack([total, tf.reduce_sum(weights * shifted, axis),
                       tf.reduce_sum(weights, axis)])

    def loss(sums_slice):
      log_total = tf.math.log(sums_slice[0])
      if not sparse:
        log_total *= sums_slice[2]
      return log_total - sums_slice[1]

    shifted = impl.slicewise(
        lambda x, m: shift(x, m, axis), logits, maximum)
    exponentials = impl.slicewise(tf.exp, shifted)
    totals = impl.allreduce(
        impl.slicewise_by_rank(sums, shifted, exponentials, labels),
        [mesh_axis], "SUM")
    keep(lowering, self, (shifted, exponentials, totals))
    return impl.slicewise(loss, totals)


class CrossEntropyGradientOperation(mtf.Operation):
  """The gradients of cross entropy for logits and floating-point labels."""

  def __init__(self, forward, dy):
    super().__init__(forward.inputs + [dy], name="cross_entropy_gradient")
    self._forward = forward
    self._num_outputs = 2 if forward.inputs[1].dtype.is_floating else 1
    self._outputs = [
        mtf.Tensor(self, x.shape, x.dtype, index=index)
        for index, x in enumerate(forward.inputs[:self._num_outputs])]

  def input_gradients(self):
    return self.outputs + [None] * (3 - self._num_outputs)

  def gradient(self, grad_ys):
    raise no_second_derivative(self.name)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    dy = reduced(lowering, self.inputs[-1])
    mesh_axis = mesh_axis_of(impl, self._forward.class_dim)
    if mesh_axis is None:
      gradients = kept(lowering, self._forward).gradients(dy)
    else:
      gradients = self._split_gradients(lowering, dy)
    used = [x.shape for x in self.inputs]
    for output, gradient in zip(self.outputs, gradients):
      lowering.set_tensor_lowering(output, sum_over(
          impl, gradient, partial_axes(impl, used, output.shape)))

  def _split_gradients(self, lowering, dy):
    impl = lowering.mesh_impl(self)
    forward = self._forward
    logits, labels = forward.inputs[:2]
    axis = axis_number(logits, forward.class_dim)
    shifted, exponentials, totals = kept(lowering, forward)

    def dlogits(rank, exponential, sums, labels_slice, dy_slice):
      if forward.sparse:
        numbers, _ = local_numbers(
            impl, logits.shape, axis, rank, labels_slice)
        weights = tf.one_hot(
            numbers, exponential.shape.as_list()[axis], axis=axis,
            dtype=exponential.dtype)
      else:
        weights = tf.cast(labels_slice, exponential.dtype)
      probabilities = exponential / tf.expand_dims(sums[0], axis)
      return tf.cast((probabilities - weights)
                     * tf.expand_dims(dy_slice, axis), logits.dtype)

    def dlabels(shifted_slice, sums, dy_slice):
      minus_log = tf.expand_dims(tf.math.log(sums[0]), axis) - shifted_slice
      return tf.cast(
          minus_log * tf.expand_dims(dy_slice, axis), labels.dtype)

    gradients = [impl.slicewise_by_rank(
        dlogits, exponentials, totals, reduced(lowering, labels), dy)]
    if self._num_outputs == 2:
      gradients.append(impl.slicewise(dlabels, shifted, totals, dy))
    return gradients


def rows_of_classes(x, axis):
  """Returns x as [rows, classes], with dimension `axis` as the classes."""
  ndims = len(x.shape)
  if axis != ndims - 1:
    x = tf.transpose(
        x, [i for i in range(ndims) if i != axis] + [axis])
  if ndims == 2:
    return x
  return tf.reshape(x, [-1, x.shape.as_list()[-1]])


def picked(x, numbers, mine, axis):
  """Returns x at position `numbers` of dimension `axis`, 0 if not `mine`.

  Args:
    x: slice.
    numbers: local positions, of the other dims of x.
    mine: which of them lie in this slice.
    axis: position of the dimension in x.
  """
  inside = tf.where(mine, numbers, tf.zeros_like(numbers))
  found = tf.gather(
      rows_of_classes(x, axis), tf.reshape(inside, [-1]), batch_dims=1)
  found = tf.reshape(found, numbers.shape)
  return tf.where(mine, found, tf.zeros_like(found))


def _check_logits(logits, labels, class_dim, where):
  check_tensor(logits, where + ": logits")
  check_tensor(labels, where + ": labels")
  if not logits.dtype.is_floating:
    raise ArgumentError(
        "%s: logits of type %s given; floating-point types are accepted. "
        "Cast them." % (where, logits.dtype.name))
  return find_dim(logits, class_dim, where + ": logits")


def _in_order(labels, shape, where):
  if labels.shape == shape:
    return labels
  if set(labels.shape.dims) != set(shape.dims):
    raise DimensionError(
        "%s: labels [%s] given; [%s] accepted. Rename or reshape them."
        % (where, format_dims(labels.shape.dims), format_dims(shape.dims)))
  return mtf.transpose(labels, shape)
