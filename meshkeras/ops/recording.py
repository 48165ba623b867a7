"""Local calls on slices, recorded so that they can be differentiated.

Mesh TensorFlow's own generic gradient takes tf.gradients between lowered
tensors. That breaks on sums that are not reduced yet, counts a path twice
when one input of an operation depends on another, and walks the whole graph
for every operation. A tape around the one local call has none of this.
"""

from meshkeras.errors import ArgumentError, InternalError
from meshkeras.ops.dims import partial_axes, reduced, sum_over
from meshkeras.upstream import mtf, tf


class Recording:
  """One function of slices, called once per local processor.

  Args:
    impl: mesh implementation.
    fn: function (rank, *slices) -> slice.
  """

  def __init__(self, impl, fn):
    self._impl = impl
    self._fn = fn
    self._calls = {}

  def run(self, *laid_out):
    """Returns the laid-out result of fn."""
    return self._impl.slicewise_by_rank(self._call, *laid_out)

  def gradients(self, dy):
    """Returns, per input, the laid-out gradient, None for integer inputs.

    Args:
      dy: laid-out gradient of the result.
    """
    wanted = [i for i, x in enumerate(self._first_inputs())
              if x.dtype.is_floating or x.dtype.is_complex]

    def gradient(rank, dy_slice):
      tape, inputs, result = self._calls[rank]
      return tuple(tape.gradient(
          result, [inputs[i] for i in wanted], output_gradients=dy_slice,
          unconnected_gradients=tf.UnconnectedGradients.ZERO))

    found = self._impl.slicewise_by_rank(gradient, dy)
    gradients = [None] * len(self._first_inputs())
    for i, value in zip(wanted, found):
      gradients[i] = value
    return gradients

  def _first_inputs(self):
    return next(iter(self._calls.values()))[1]

  def _call(self, rank, *slices):
    # Identities make every input a tensor of its own, even where two
    # inputs of an operation share one.
    inputs = [tf.identity(x) for x in slices]
    with tf.GradientTape(persistent=True) as tape:
      for x in inputs:
        if x.dtype.is_floating or x.dtype.is_complex:
          tape.watch(x)
      result = self._fn(rank, *inputs)
    self._calls[rank] = (tape, inputs, result)
    return result


class RecordedGradient(mtf.Operation):
  """The gradients of an operation whose forward lowering was recorded.

  Its outputs are those of the forward operation's floating-point inputs.

  When split:
    an axis that splits a dimension of the forward operation and none of an
    input: that input's gradient is a sum over the axis, left unreduced.

  Args:
    forward: operation with one output; its `lower` calls `keep` with a
      Recording of its inputs in order.
    dy: gradient of its output.
  """

  def __init__(self, forward, dy):
    super().__init__(
        forward.inputs + [dy], name=type(forward).__name__ + "_gradient")
    self._forward = forward
    self._differentiated = [
        i for i, x in enumerate(forward.inputs) if x.dtype.is_floating]
    self._outputs = [
        mtf.Tensor(self, forward.inputs[i].shape, forward.inputs[i].dtype,
                   index=index)
        for index, i in enumerate(self._differentiated)]

  def input_gradients(self):
    """Returns one tensor, or None, per input of the forward operation."""
    gradients = [None] * len(self._forward.inputs)
    for i, output in zip(self._differentiated, self.outputs):
      gradients[i] = output
    return gradients

  def gradient(self, grad_ys):
    raise no_second_derivative(self.name)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    recording = kept(lowering, self._forward)
    found = recording.gradients(reduced(lowering, self.inputs[-1]))
    used = [x.shape for x in self.inputs]
    for i, output in zip(self._differentiated, self.outputs):
      lowering.set_tensor_lowering(output, sum_over(
          impl, found[i], partial_axes(impl, used, output.shape)))


def keep(lowering, operation, value):
  """Keeps what the lowering of `operation` needs again in its gradient.

  On the lowering, not on the operation: a graph may be lowered twice, and
  upstream copies operations when it recomputes.
  """
  _kept_values(lowering)[operation] = value


def kept(lowering, operation):
  """Returns what `keep` stored.

  Raises:
    InternalError: the forward operation was not lowered before.
  """
  values = _kept_values(lowering)
  if operation not in values:
    raise InternalError(
        "operation %r: its gradient is lowered, the operation itself was "
        "not. Report this with the model." % operation.name)
  return values[operation]


def no_second_derivative(name):
  """Returns the error of an operation that has first derivatives only."""
  return ArgumentError(
      "operation %r: the derivative of a gradient was asked for; first "
      "derivatives are available. Apply mtf.stop_gradient to the gradient "
      "before using it." % name)


def _kept_values(lowering):
  return lowering.__dict__.setdefault("meshkeras_kept", {})
