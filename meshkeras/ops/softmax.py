"""Softmax and its logarithm along a dimension that may be split."""

from meshkeras.ops.argmax import max_with_index
from meshkeras.ops.dims import axis_number, find_dim, mesh_axis_of, reduced
from meshkeras.ops.recording import Recording, keep, kept, no_second_derivative
from meshkeras.upstream import mtf, tf


def softmax(x, dim):
  """Returns exp(x) / sum over dim of exp(x), without overflow.

  Args:
    x: tensor of floating-point type.
    dim: dimension of x.

  Dimensions:
    x, result: [..., dim, ...]

  When split:
    dim: two allreduces (maximum and sum) of one value per position of the
      other dimensions; one more in the gradient.
    another: no traffic; TensorFlow's own kernel.

  Raises:
    DimensionError: x has no such dimension.
    ArgumentError: x is not of floating-point type.
  """
  return _softmax(x, dim, False)


def log_softmax(x, dim):
  """Returns x - log(sum over dim of exp(x)), without overflow.

  Args, Dimensions, When split and Raises: as `softmax`.
  """
  return _softmax(x, dim, True)


def _softmax(x, dim, log):
  dim = find_dim(x, dim, "log_softmax" if log else "softmax")
  maximum, _ = max_with_index(x, dim)
  return SoftmaxOperation(x, maximum, dim, log).outputs[0]


class SoftmaxOperation(mtf.Operation):
  """See `softmax` and `log_softmax`."""

  def __init__(self, x, maximum, dim, log):
    super().__init__(
        [x, maximum], name="log_softmax" if log else "softmax")
    self.dim = dim
    self.log = log
    self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

  def gradient(self, grad_ys):
    return [SoftmaxGradientOperation(self, grad_ys[0]).outputs[0], None]

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    x = reduced(lowering, self.inputs[0])
    axis = axis_number(self.inputs[0], self.dim)
    mesh_axis = mesh_axis_of(impl, self.dim)
    if mesh_axis is None:
      kernel = tf.nn.log_softmax if self.log else tf.nn.softmax
      recording = Recording(
          impl, lambda unused_rank, x_slice: kernel(x_slice, axis=axis))
      keep(lowering, self, recording)
      lowering.set_tensor_lowering(self.outputs[0], recording.run(x))
      return

    shifted, exponentials, total = exponentials_and_total(
        impl, x, reduced(lowering, self.inputs[1]), axis, mesh_axis)

    def normalized(shifted_slice, exponential, sum_slice):
      sum_slice = tf.expand_dims(sum_slice, axis)
      y = (shifted_slice - tf.math.log(sum_slice) if self.log
           else exponential / sum_slice)
      return tf.cast(y, self.outputs[0].dtype)

    keep(lowering, self, (exponentials, total))
    lowering.set_tensor_lowering(self.outputs[0], impl.slicewise(
        normalized, shifted, exponentials, total))


class SoftmaxGradientOperation(mtf.Operation):
  """The gradient of `softmax` or `log_softmax` for x."""

  def __init__(self, forward, dy):
    super().__init__(forward.outputs + [dy], name="softmax_gradient")
    self._forward = forward
    x = forward.inputs[0]
    self._outputs = [mtf.Tensor(self, x.shape, x.dtype)]

  def gradient(self, grad_ys):
    raise no_second_derivative(self.name)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    dx = self.outputs[0]
    dy = reduced(lowering, self.inputs[1])
    axis = axis_number(dx, self._forward.dim)
    mesh_axis = mesh_axis_of(impl, self._forward.dim)
    if mesh_axis is None:
      recording = kept(lowering, self._forward)
      lowering.set_tensor_lowering(dx, recording.gradients(dy)[0])
      return
    log = self._forward.log
    exponentials, total = kept(lowering, self._forward)

    def probabilities(exponential, sum_slice):
      return exponential / tf.expand_dims(sum_slice, axis)

    def weighted(y, dy_slice):
      dy_slice = tf.cast(dy_slice, y.dtype)
      return tf.reduce_sum(dy_slice if log else dy_slice * y, axis)

    def combined(y, dy_slice, weighted_sum):
      dy_slice = tf.cast(dy_slice, y.dtype)
      weighted_sum = tf.expand_dims(weighted_sum, axis)
      result = (dy_slice - y * weighted_sum if log
                else (dy_slice - weighted_sum) * y)
      return tf.cast(result, dx.dtype)

    y = impl.slicewise(probabilities, exponentials, total)
    weighted_sum = impl.allreduce(
        impl.slicewise(weighted, y, dy), [mesh_axis], "SUM")
    lowering.set_tensor_lowering(
        dx, impl.slicewise(combined, y, dy, weighted_sum))


def shift(x, maximum, axis):
  """Returns x - maximum along `axis`, in float32 for half precisions."""
  if x.dtype in (tf.float16, tf.bfloat16):
    x, maximum = tf.cast(x, tf.float32), tf.cast(maximum, tf.float32)
  return x - tf.expand_dims(maximum, axis)


def exponentials_and_total(impl, x, maximum, axis, mesh_axis):
  """Returns laid-out (x - maximum, its exponential, sum of those).

  Args:
    impl: mesh implementation.
    x: laid-out tensor.
    maximum: laid-out maximum of x along `axis`.
    axis: position of the dimension in x.
    mesh_axis: mesh axis that splits it.
  """
  shifted = impl.slicewise(lambda x, m: shift(x, m, axis), x, maximum)
  exponentials = impl.slicewise(tf.exp, shifted)
  total = impl.allreduce(
      impl.slicewise(lambda e: tf.reduce_sum(e, axis), exponentials),
      [mesh_axis], "SUM")
  return shifted, exponentials, total
