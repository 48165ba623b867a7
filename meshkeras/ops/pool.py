"""Pooling by dimension name."""

import numpy as np

from meshkeras.errors import DimensionError
from meshkeras.ops.conv import pair, resized
from meshkeras.ops.dims import find_dims
from meshkeras.ops.window import WindowSpec, check_spec, padding_before, window
from meshkeras.upstream import tf


def max_pool2d(x, spatial_dims, pool_size, strides=None, padding="valid"):
  """Returns the largest value of every window.

  Args:
    x: tensor of floating-point type.
    spatial_dims: two adjacent dimensions of x.
    pool_size: two whole numbers, or one for both.
    strides: the same. Default pool_size.
    padding: "same" or "valid"; padding never is the largest.

  Dimensions:
    x: [..., rows, cols, ...]
    result: [..., rows, cols, ...], rows and cols of the new sizes

  When split:
    rows, cols: one alltoall of the borders, and one back in the gradient;
      none if every window lies on one processor.
    any other: no traffic.

  Raises:
    DimensionError: a dimension is missing, or smaller than the window.
    ArgumentError: pool_size, strides or padding are not accepted.
  """
  spatial_dims, spec = _spec(
      x, spatial_dims, pool_size, strides, padding, "max_pool2d")
  spec = spec._replace(fill=-np.inf)

  def fn(x_slice, unused_filter, local):
    return tf.nn.max_pool2d(
        x_slice, spec.kernel_size, spec.strides, local.padding)

  return window(fn, x, spatial_dims, spec, resized(x, spatial_dims, spec))


def avg_pool2d(x, spatial_dims, pool_size, strides=None, padding="valid"):
  """Returns the mean of every window's real cells, padding left out.

  Args, Dimensions, When split and Raises: as `max_pool2d`.
  """
  spatial_dims, spec = _spec(
      x, spatial_dims, pool_size, strides, padding, "avg_pool2d")
  sizes = [dim.size for dim in spatial_dims]

  def fn(x_slice, unused_filter, local):
    mean = tf.nn.avg_pool2d(
        x_slice, spec.kernel_size, spec.strides, local.padding)
    if local.padding == "SAME" or spec.padding == "valid":
      return mean
    # The kernel saw padding as cells of value 0: undo their weight.
    scale = 1.0
    for axis, size in enumerate(sizes):
      scale = np.multiply.outer(scale, _weights(size, spec, axis, local.box))
    return mean * tf.constant(scale[None, :, :, None], mean.dtype)

  return window(fn, x, spatial_dims, spec, resized(x, spatial_dims, spec))


def _spec(x, spatial_dims, pool_size, strides, padding, where):
  spatial_dims = find_dims(x, spatial_dims, where)
  if not x.dtype.is_floating:
    raise DimensionError(
        "%s: a tensor of type %s given; floating-point types are accepted. "
        "Cast it." % (where, x.dtype.name))
  pool_size = pair(pool_size)
  spec = WindowSpec(
      pool_size, pool_size if strides is None else pair(strides), padding)
  check_spec(spec, 2)
  return spatial_dims, spec


def _weights(size, spec, axis, box):
  """Returns window size / real cells of each local window along `axis`."""
  kernel_size, stride = spec.kernel_size[axis], spec.strides[axis]
  begins = np.arange(*box[axis]) * stride - padding_before(
      size, kernel_size, stride, spec.padding)
  cells = np.minimum(begins + kernel_size, size) - np.maximum(begins, 0)
  return kernel_size / cells
