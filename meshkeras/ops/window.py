"""Functions of sliding windows, on spatial dimensions that may be split."""

from typing import NamedTuple

from meshkeras.errors import ArgumentError, DimensionError, LayoutError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.dims import (
  as_shape,
  axis_number,
  find_dims,
  mesh_axis_of,
  partial_axes,
  reduced,
  sum_over,
)
from meshkeras.ops.recording import Recording, keep, kept, no_second_derivative
from meshkeras.upstream import mtf, tf


class WindowSpec(NamedTuple):
  """Geometry of a window: one number per spatial dimension.

  Args:
    kernel_size: positions the window covers.
    strides: positions between two windows.
    padding: "same" or "valid", as TensorFlow defines them.
    fill: value of positions outside the tensor.
  """

  kernel_size: tuple
  strides: tuple
  padding: str
  fill: float = 0.0


class LocalWindow(NamedTuple):
  """What a local function must know of the place it computes.

  padding: "SAME" or "VALID": what to hand to the TensorFlow kernel.
  box: the (begin, end) of the outputs, per spatial dimension, in global
    positions.
  """

  padding: str
  box: tuple


def window(fn, x, spatial_dims, spec, output_dims, filter=None):
  """Returns y = fn of every window of x; windows may cross processors.

  The base of convolutions and pooling. Costs, beside fn itself, the
  exchange of the borders; if no spatial dimension is split, nothing.

  Args:
    fn: function (x slice [leading, *spatial, trailing], filter slice or
      None, LocalWindow) -> slice [leading, *output spatial, channels];
      leading and trailing are the merged dimensions before and after the
      spatial ones. Differentiated by TensorFlow.
    x: tensor.
    spatial_dims: adjacent dimensions of x, in its order.
    spec: WindowSpec.
    output_dims: the result's dims: as x's, the spatial ones of the sizes
      that `output_size` gives, others after them.
    filter: tensor of weights, or None.

  Dimensions:
    x: [..., *spatial_dims, ...]
    result: [..., *spatial_dims of new sizes, ...]

  When split:
    a spatial dimension: one alltoall that carries the borders, at most
      kernel_size - 1 positions per processor if strides are 1; one more
      for the gradient of x.
    a dimension of x or filter that the result lacks: it is a sum over the
      axis, left unreduced; so are the gradients.
    a dimension of the filter named as none of x or of the result:
      LayoutError when lowered.

  Raises:
    DimensionError: spatial_dims are missing, not adjacent, or too small
      for the kernel.
    ArgumentError: spec has other lengths, sizes below 1, or an unknown
      padding.
  """
  spatial_dims = find_dims(x, spatial_dims, "window")
  check_spec(spec, len(spatial_dims))
  first = axis_number(x, spatial_dims[0])
  if x.shape.dims[first:first + len(spatial_dims)] != spatial_dims:
    raise DimensionError(
        "window: spatial dimensions [%s] given; in the tensor [%s] they are "
        "not adjacent in this order. Transpose it first."
        % (format_dims(spatial_dims), format_dims(x.shape.dims)))
  return WindowOperation(
      fn, x, first, spec, as_shape(output_dims), filter).outputs[0]


def check_spec(spec, num_spatial):
  """Raises ArgumentError if `spec` cannot be used; see `window`."""
  for what, values in (("kernel_size", spec.kernel_size),
                       ("strides", spec.strides)):
    if len(values) != num_spatial or any(int(v) < 1 for v in values):
      raise ArgumentError(
          "window: %s %s given; accepted are %d whole numbers of at least "
          "1." % (what, tuple(values), num_spatial))
  if spec.padding not in ("same", "valid"):
    raise ArgumentError(
        "window: padding %r given; accepted are 'same' and 'valid'."
        % (spec.padding,))


def output_size(size, kernel_size, stride, padding):
  """Returns the number of windows along a dimension.

  Raises:
    DimensionError: the kernel is larger than the dimension ("valid").

  Example:
    >>> output_size(8, 3, 2, "same"), output_size(8, 3, 2, "valid")
    (4, 3)
  """
  if padding == "same":
    return -(-size // stride)
  if kernel_size > size:
    raise DimensionError(
        "window: kernel of size %d over %d positions with padding 'valid'; "
        "at most %d fits. Use a smaller kernel or padding 'same'."
        % (kernel_size, size, size))
  return (size - kernel_size) // stride + 1


def padding_before(size, kernel_size, stride, padding):
  """Returns the number of positions that "same" adds before the first."""
  return sum(paddings(size, kernel_size, stride, padding)[:1])


def paddings(size, kernel_size, stride, padding):
  """Returns the numbers of positions added (before, after).

  Example:
    >>> paddings(8, 3, 2, "same")
    (0, 1)
  """
  if padding == "valid":
    return (0, 0)
  covered = (output_size(size, kernel_size, stride, padding) - 1) * stride
  total = max(covered + kernel_size - size, 0)
  return (total // 2, total - total // 2)


def window_ranges(size, kernel_size, stride, padding, ways):
  """Returns, per processor, the inputs that its share of windows covers.

  Args:
    size: positions of the full dimension.
    kernel_size: positions of a window.
    stride: positions between windows.
    padding: "same" or "valid".
    ways: number of processors; divides the number of windows.

  Returns: [(begin, end), ...], equally long; positions below 0 and from
    `size` on are padding.

  Example:
    >>> window_ranges(8, 3, 1, "same", 2)
    [(-1, 5), (3, 9)]
  """
  share = output_size(size, kernel_size, stride, padding) // ways
  before = padding_before(size, kernel_size, stride, padding)
  length = (share - 1) * stride + kernel_size
  begins = [c * share * stride - before for c in range(ways)]
  return [(begin, begin + length) for begin in begins]


class _Fetch(NamedTuple):
  """The ranges of one split spatial dimension."""

  mesh_axis: int
  tensor_axis: int
  ranges: list
  size: int


class WindowOperation(mtf.Operation):
  """See `window`."""

  def __init__(self, fn, x, first, spec, output_shape, filter):
    super().__init__([x] if filter is None else [x, filter], name="window")
    self._fn = fn
    self._first = first
    self._spec = spec
    self._outputs = [mtf.Tensor(self, output_shape, x.dtype)]

  def gradient(self, grad_ys):
    return WindowGradientOperation(self, grad_ys[0]).outputs

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    x, y = self.inputs[0], self.outputs[0]
    self._check_layout(impl)
    fetches = self.fetches(impl)
    laid_out = reduced(lowering, x)
    for fetch in fetches:
      laid_out = impl.fetch_ranges(
          laid_out, fetch.mesh_axis, fetch.tensor_axis, fetch.ranges,
          self._spec.fill)
    recording = Recording(impl, self._local(impl, bool(fetches)))
    keep(lowering, self, recording)
    result = recording.run(
        laid_out, *[reduced(lowering, w) for w in self.inputs[1:]])
    lowering.set_tensor_lowering(y, sum_over(impl, result, partial_axes(
        impl, [w.shape for w in self.inputs], y.shape)))

  def fetches(self, impl):
    """Returns a _Fetch per spatial dimension that is split."""
    found = []
    for i, (kernel_size, stride) in enumerate(
        zip(self._spec.kernel_size, self._spec.strides)):
      axis = self._first + i
      dim = self.inputs[0].shape.dims[axis]
      mesh_axis = mesh_axis_of(impl, dim)
      if mesh_axis is not None:
        ranges = window_ranges(dim.size, kernel_size, stride,
                               self._spec.padding, impl.shape[mesh_axis].size)
        found.append(_Fetch(mesh_axis, axis, ranges, dim.size))
    return found

  def _local(self, impl, fetched):
    """Returns the function (rank, x slice, [filter slice]) -> y slice."""
    spec, first = self._spec, self._first
    last = first + len(spec.kernel_size)
    y = self.outputs[0]
    slice_shape = impl.slice_shape(y.shape)
    pads = self._local_paddings(impl) if fetched else None
    padding = "VALID" if fetched else spec.padding.upper()

    def local(rank, x, filter=None):
      if pads and any(any(pair) for pair in pads):
        x = tf.pad(x, pads, constant_values=tf.cast(spec.fill, x.dtype))
      place = LocalWindow(padding, impl.box(y.shape, rank)[first:last])
      return _reshaped(
          self._fn(_merged(x, first, last), filter, place), slice_shape)

    return local

  def _local_paddings(self, impl):
    """Returns tf.pad's argument for the spatial dims that are not split."""
    x = self.inputs[0]
    pads = [(0, 0)] * x.shape.ndims
    for i, (kernel_size, stride) in enumerate(
        zip(self._spec.kernel_size, self._spec.strides)):
      dim = x.shape.dims[self._first + i]
      if mesh_axis_of(impl, dim) is None:
        pads[self._first + i] = paddings(
            dim.size, kernel_size, stride, self._spec.padding)
    return pads

  def _check_layout(self, impl):
    x, y = self.inputs[0], self.outputs[0]
    known = set(x.shape.dims + y.shape.dims)
    for w in self.inputs[1:]:
      for dim in w.shape.dims:
        mesh_axis = mesh_axis_of(impl, dim)
        if dim not in known and mesh_axis is not None:
          raise LayoutError(
              "window: filter [%s]: dimension %s is split over axis %r; a "
              "window's own dimensions cannot be. Remove %s:%s from the "
              "layout." % (format_dims(w.shape.dims), dim.name,
                           impl.shape[mesh_axis].name, dim.name,
                           impl.shape[mesh_axis].name))
    for dim in y.shape.dims:
      mesh_axis = mesh_axis_of(impl, dim)
      if mesh_axis is not None and dim.size % impl.shape[mesh_axis].size:
        raise LayoutError(
            "window over [%s]: its result has %s=%d, split over axis %r of "
            "size %d, which does not divide it. Change size, kernel, stride "
            "or padding, or remove %s:%s from the layout."
            % (format_dims(x.shape.dims), dim.name, dim.size,
               impl.shape[mesh_axis].name, impl.shape[mesh_axis].size,
               dim.name, impl.shape[mesh_axis].name))


class WindowGradientOperation(mtf.Operation):
  """The gradients of `window` for x and filter.

  The local derivative is taken of the fetched slices; what belongs to other
  processors is sent back to them and added there.
  """

  def __init__(self, forward, dy):
    super().__init__(forward.inputs + [dy], name="window_gradient")
    self._forward = forward
    self._outputs = [
        mtf.Tensor(self, x.shape, x.dtype, index=index)
        for index, x in enumerate(forward.inputs)]

  def gradient(self, grad_ys):
    raise no_second_derivative(self.name)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    recording = kept(lowering, self._forward)
    gradients = recording.gradients(reduced(lowering, self.inputs[-1]))
    used = [x.shape for x in self.inputs]
    axes = [partial_axes(impl, used, y.shape) for y in self.outputs]
    dx = self.outputs[0]
    fetches = self._forward.fetches(impl)
    if fetches and not axes[0]:
      gradients[0] = mtf.LazyLaidOutTensor(
          _once(lambda laid_out=gradients[0]: _given_back(
              impl, laid_out, fetches)), impl.slice_shape(dx.shape))
    else:
      # Linear, so it may run before the sum over another axis is reduced.
      gradients[0] = _given_back(impl, gradients[0], fetches)
    for output, gradient, over in zip(self.outputs, gradients, axes):
      lowering.set_tensor_lowering(output, sum_over(impl, gradient, over))


def _given_back(impl, dx, fetches):
  """Returns the gradient of fetched slices, added up at their owners."""
  for fetch in reversed(fetches):
    dx = impl.return_ranges(dx, fetch.mesh_axis, fetch.tensor_axis,
                            fetch.ranges, fetch.size)
  return dx


def _once(fn):
  """Returns a function that calls fn the first time only.

  A model's first layer needs no gradient of its input: the exchange is
  lowered when something asks for it.
  """
  results = []

  def call():
    if not results:
      results.append(fn())
    return results[0]

  return call


def _merged(x, first, last):
  """Returns x with the dims before `first` and from `last` on merged."""
  sizes = x.shape.as_list()
  leading = trailing = 1
  for size in sizes[:first]:
    leading *= size
  for size in sizes[last:]:
    trailing *= size
  return _reshaped(x, [leading] + sizes[first:last] + [trailing])


def _reshaped(x, sizes):
  return x if x.shape.as_list() == sizes else tf.reshape(x, sizes)
