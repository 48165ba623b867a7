"""Convolution by dimension name."""

from meshkeras.errors import DimensionError
from meshkeras.mesh.dimension import format_dims
from meshkeras.ops.dims import find_dim, find_dims
from meshkeras.ops.window import WindowSpec, check_spec, output_size, window
from meshkeras.upstream import mtf, tf


def conv2d(x, filter, spatial_dims, strides, padding, in_dim, out_dim):
  """Returns the cross-correlation of x with a filter, as tf.nn.conv2d.

  Args:
    x: tensor.
    filter: tensor of the same type; its first two dims are the kernel's
      rows and columns.
    spatial_dims: two dimensions of x.
    strides: two whole numbers, or one for both.
    padding: "same" or "valid".
    in_dim: dimension of x and filter that is summed over.
    out_dim: dimension of the filter that the result gets.

  Dimensions:
    x: [..., rows, cols, in_dim]    (another order is transposed first)
    filter: [kernel rows, kernel cols, in_dim, out_dim]
    result: [..., rows, cols, out_dim], rows and cols of the new sizes

  When split:
    rows, cols: one alltoall of the borders, and one back in the gradient.
    in_dim: the result is a sum over its axis, left unreduced.
    out_dim: no traffic; the gradient of x is a sum, left unreduced.
    batch, rows, cols: the gradient of the filter is a sum, left unreduced.

  Raises:
    DimensionError: a dimension is missing, or the filter has others.
    ArgumentError: strides or padding are not accepted.

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> x = mtf.zeros(mesh, [("batch", 2), ("rows", 8), ("cols", 8),
    ...                      ("gray", 1)])
    >>> filter = mtf.zeros(mesh, [("k0", 3), ("k1", 3), ("gray", 1),
    ...                           ("filters", 4)])
    >>> conv2d(x, filter, ("rows", "cols"), 2, "same", "gray",
    ...        "filters").shape
    Shape[batch=2, rows=4, cols=4, filters=4]
  """
  spatial_dims = find_dims(x, spatial_dims, "conv2d: x")
  in_dim = find_dim(x, in_dim, "conv2d: x")
  find_dim(filter, in_dim, "conv2d: filter")
  out_dim = find_dim(filter, out_dim, "conv2d: filter")
  if filter.shape.ndims != 4 or filter.shape.dims[2:] != [in_dim, out_dim]:
    raise DimensionError(
        "conv2d: filter [%s] given; accepted is [kernel rows, kernel cols, "
        "%s, %s]. Transpose it."
        % (format_dims(filter.shape.dims), in_dim.name, out_dim.name))
  strides = pair(strides)
  spec = WindowSpec(tuple(d.size for d in filter.shape.dims[:2]), strides,
                    padding)
  check_spec(spec, 2)
  x = channels_last(x, spatial_dims, in_dim)

  def fn(x_slice, filter_slice, local):
    return tf.nn.conv2d(
        x_slice, filter_slice, strides=(1,) + strides + (1,),
        padding=local.padding)

  dims = resized(x, spatial_dims, spec)[:-1] + [out_dim]
  return window(fn, x, spatial_dims, spec, dims, filter)


def pair(value):
  """Returns two whole numbers of one or two."""
  if isinstance(value, int):
    return (value, value)
  return tuple(value)


def channels_last(x, spatial_dims, channel_dim=None):
  """Returns x as [..., *spatial_dims, channel_dim].

  Args:
    x: tensor.
    spatial_dims: dimensions of x.
    channel_dim: dimension of x, or None if there is none.
  """
  last = list(spatial_dims) + ([] if channel_dim is None else [channel_dim])
  dims = [dim for dim in x.shape.dims if dim not in last] + last
  return x if x.shape.dims == dims else mtf.transpose(x, dims)


def resized(x, spatial_dims, spec):
  """Returns the dims of x, spatial ones of the sizes after the window."""
  sizes = {
      dim: output_size(dim.size, kernel_size, stride, spec.padding)
      for dim, kernel_size, stride in zip(
          spatial_dims, spec.kernel_size, spec.strides)}
  return [mtf.Dimension(dim.name, sizes.get(dim, dim.size))
          for dim in x.shape.dims]
