"""Contraction by dimension name."""

from meshkeras.errors import DimensionError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.dims import (
  as_shape,
  check_tensor,
  find_dims,
  partial_axes,
  reduced,
  sum_over,
)
from meshkeras.ops.elementwise import elementwise
from meshkeras.upstream import mtf, tf


def matmul(x, w, in_dims, out_dims):
  """Returns y[..., out] = sum over in of x[..., in] * w[in, out].

  If the dimensions stand in this order (w may also be [out, in]) it is one
  matrix product per processor, forward, and one per gradient, with no
  transposition in memory; otherwise an einsum.

  Args:
    x: tensor.
    w: tensor of the same type.
    in_dims: dimensions that are summed over, in x and in w.
    out_dims: dimensions of w that y gets, as its last.

  Dimensions:
    x: [..., in_dims]
    w: [in_dims, out_dims]
    y: [..., out_dims]

  When split:
    in_dims: y is a sum over their axes, left unreduced.
    out_dims: no traffic; the gradient of x is a sum, left unreduced.
    a dimension of x alone (batch): no traffic; the gradient of w is a sum,
      left unreduced.

  Raises:
    DimensionError: a dimension is missing, w has a dimension more than
      in_dims and out_dims that x lacks, or x has one of out_dims.

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> x = mtf.zeros(mesh, [("batch", 4), ("in", 3)])
    >>> w = mtf.zeros(mesh, [("in", 3), ("hidden", 8)])
    >>> matmul(x, w, ["in"], ["hidden"]).shape
    Shape[batch=4, hidden=8]
  """
  check_tensor(x, "matmul")
  check_tensor(w, "matmul")
  in_dims = find_dims(w, in_dims, "matmul: w")
  find_dims(x, in_dims, "matmul: x")
  out_dims = find_dims(w, out_dims, "matmul: w")
  kept = [dim for dim in x.shape.dims if dim not in in_dims]
  _check_dims(x, w, in_dims, out_dims, kept)
  y_shape = mtf.Shape(kept + out_dims)
  x_in_order = x.shape.dims == kept + in_dims
  if x_in_order and w.shape.dims == in_dims + out_dims:
    return _product(_Matrix(x, len(kept)), _Matrix(w, len(in_dims)), y_shape)
  if x_in_order and w.shape.dims == out_dims + in_dims:
    return _product(_Matrix(x, len(kept)),
                    _Matrix(w, len(out_dims), transposed=True), y_shape)
  return mtf.einsum([x, w], output_shape=y_shape)


def bias_add(x, bias):
  """Returns x + bias, by TensorFlow's fused kernel where it fits.

  Args:
    x: tensor.
    bias: tensor of some of x's dimensions.

  When split:
    any dimension: no traffic; the gradient of the bias is a sum, left
      unreduced.

  Raises:
    DimensionError: the bias has a dimension that x lacks.
  """
  last = x.shape.dims[-1:] == bias.shape.dims and x.shape.ndims > 1
  return elementwise(
      tf.nn.bias_add if last else tf.add, [x, bias], name="bias_add")


class _Matrix:
  """A tensor seen as a matrix: the first `cut` dims are its rows.

  Args:
    x: tensor.
    cut: number of leading dims that make up the rows; the rest are columns.
    transposed: whether the product takes its transpose.
  """

  def __init__(self, x, cut, transposed=False):
    self.x = x
    self.cut = cut
    self.transposed = transposed

  def flipped(self):
    return _Matrix(self.x, self.cut, not self.transposed)

  def rows(self):
    """Number of leading dims of the product that stem from this, as left."""
    return self.x.shape.ndims - self.cut if self.transposed else self.cut


def _product(a, b, shape):
  return MatrixProductOperation(a, b, shape).outputs[0]


class MatrixProductOperation(mtf.Operation):
  """The product of two tensors seen as matrices; so are its gradients."""

  def __init__(self, a, b, shape):
    super().__init__([a.x, b.x], name="matmul")
    self._a_cut, self._a_transposed = a.cut, a.transposed
    self._b_cut, self._b_transposed = b.cut, b.transposed
    self._outputs = [mtf.Tensor(self, shape, a.x.dtype)]

  def _operands(self):
    return (_Matrix(self.inputs[0], self._a_cut, self._a_transposed),
            _Matrix(self.inputs[1], self._b_cut, self._b_transposed))

  def gradient(self, grad_ys):
    a, b = self._operands()
    dy = _Matrix(grad_ys[0], a.rows())
    # y = A B, with A and B transposed or not as they are used here:
    # dA = dY B', dB = A' dY; the gradient of what A is the transpose of is
    # (dY B')' = B dY'.
    if a.transposed:
      da = _product(b, dy.flipped(), a.x.shape)
    else:
      da = _product(dy, b.flipped(), a.x.shape)
    if b.transposed:
      db = _product(dy.flipped(), a, b.x.shape)
    else:
      db = _product(a.flipped(), dy, b.x.shape)
    return [da, db]

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    a, b = self._operands()
    y = self.outputs[0]
    slice_shape = impl.slice_shape(y.shape)

    def local(a_slice, b_slice):
      product = tf.matmul(
          _as_matrix(a_slice, a.cut), _as_matrix(b_slice, b.cut),
          transpose_a=a.transposed, transpose_b=b.transposed)
      if product.shape.as_list() == slice_shape:
        return product
      return tf.reshape(product, slice_shape)

    laid_out = impl.slicewise(
        local, reduced(lowering, a.x), reduced(lowering, b.x))
    axes = partial_axes(impl, [a.x.shape, b.x.shape], y.shape)
    lowering.set_tensor_lowering(y, sum_over(impl, laid_out, axes))


def _as_matrix(x, cut):
  sizes = x.shape.as_list()
  if len(sizes) == 2 and cut == 1:
    return x
  rows = columns = 1
  for size in sizes[:cut]:
    rows *= size
  for size in sizes[cut:]:
    columns *= size
  return tf.reshape(x, [rows, columns])


def _check_dims(x, w, in_dims, out_dims, kept):
  if x.dtype != w.dtype:
    raise DimensionError(
        "matmul: x is %s and w is %s; equal types are accepted. Cast one of "
        "them." % (x.dtype.name, w.dtype.name))
  repeated = [dim for dim in out_dims if dim.name in
              as_shape(kept + in_dims).dimension_names]
  if repeated:
    raise DimensionError(
        "matmul: out_dims [%s] given, x has [%s]; the result would have a "
        "dimension twice. Rename the one of x first: ops.rename(x, %r, %r)."
        % (format_dims(repeated), format_dims(x.shape.dims),
           repeated[0].name, repeated[0].name + "_in"))
  extra = [dim for dim in w.shape.dims
           if dim not in in_dims + out_dims + kept]
  if extra:
    raise DimensionError(
        "matmul: w [%s] has [%s], in neither in_dims [%s] nor out_dims [%s] "
        "nor x. Name them in one of the two."
        % (format_dims(w.shape.dims), format_dims(extra),
           format_dims(in_dims), format_dims(out_dims)))
