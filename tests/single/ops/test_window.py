"""Convolution and pooling against plain TensorFlow, spatial dims split."""

import numpy as np
import pytest

from meshkeras import ops
from meshkeras.errors import ArgumentError, DimensionError, LayoutError
from meshkeras.upstream import mtf, tf
from tests.helpers import check_layouts, run_on_mesh

RANDOM = np.random.RandomState(0)
SPATIAL = ("rows", "cols")
DIMS = "batch rows cols chin"


def image(*shape):
  return RANDOM.standard_normal(shape).astype(np.float32)


X = image(2, 8, 16, 2)

# One layout per way of splitting; the sizes below fit all of them.
SPATIAL_LAYOUTS = [
    ("", ""), ("a:2", "rows:a"), ("a:2", "cols:a"),
    ("a:2,b:2", "rows:a,cols:b"), ("a:4", "cols:a"),
    ("a:2,b:2", "batch:a,rows:b")]
CHANNEL_LAYOUTS = [
    ("a:2", "batch:a"), ("a:2", "chin:a"), ("a:2", "chout:a"),
    ("a:2,b:2", "chin:a,chout:b"), ("a:2,b:2", "chin:a,rows:b"),
    ("a:2,b:2", "chout:a,cols:b"), ("a:2,b:2", "batch:b,chout:a"),
    ("a:2,b:2,c:2", "rows:a,cols:b,chout:c")]


def check_conv(x, kernel, strides, padding, layouts, **tolerances):
  kernel = image(*kernel)
  return check_layouts(
      lambda mesh, x, w: ops.conv2d(
          x, w, SPATIAL, strides, padding, "chin", "chout"),
      lambda x, w: tf.nn.conv2d(
          x, w, strides=strides, padding=padding.upper()),
      [(x, DIMS), (kernel, "k0 k1 chin chout")], layouts, 1e-4, 1e-4,
      **tolerances)


@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("strides", [1, 2])
def test_conv2d_same_equals_tensorflow(kernel, strides):
  check_conv(X, [kernel, kernel, 2, 4], (strides, strides), "same",
             SPATIAL_LAYOUTS)


@pytest.mark.parametrize("kernel, strides, rows, cols", [
    (1, 1, 8, 8), (2, 1, 9, 17), (3, 1, 10, 10), (5, 1, 8, 8),
    (1, 2, 8, 16), (2, 2, 8, 8), (3, 2, 9, 9), (5, 2, 11, 19), (3, 3, 6, 12)])
def test_conv2d_valid_equals_tensorflow(kernel, strides, rows, cols):
  # The input must be divisible too, so sizes that do not fit are left out.
  layouts = [
      (mesh, layout) for mesh, layout in SPATIAL_LAYOUTS
      if fits(mesh, layout, rows, cols, kernel, strides)]
  assert len(layouts) > 1 or rows % 2
  check_conv(image(2, rows, cols, 2), [kernel, kernel, 2, 2],
             (strides, strides), "valid", layouts)


def fits(mesh, layout, rows, cols, kernel, strides):
  ways = dict(axis.split(":") for axis in mesh.split(",") if axis)
  rules = dict(rule.split(":") for rule in layout.split(",") if rule)
  for name, size in (("rows", rows), ("cols", cols)):
    n = int(ways.get(rules.get(name), 1))
    if size % n or ops.output_size(size, kernel, strides, "valid") % n:
      return False
  return True


def test_conv2d_channels_split_equals_tensorflow():
  check_conv(X, [3, 3, 2, 4], (1, 1), "same", CHANNEL_LAYOUTS)
  check_conv(X, [3, 2, 2, 4], (2, 1), "same", CHANNEL_LAYOUTS[3:])


def test_conv2d_halo_wider_than_a_block():
  x = image(2, 8, 4, 1)
  check_conv(x, [7, 3, 1, 2], (1, 1), "same",
             [("a:4", "rows:a"), ("a:8", "rows:a"),
              ("a:4,b:2", "rows:a,cols:b")])
  check_conv(image(1, 16, 4, 1), [5, 1, 1, 1], (4, 2), "same",
             [("a:4", "rows:a"), ("a:2", "rows:a")])
  check_conv(x, [5, 1, 1, 1], (1, 1), "valid",
             [("a:4", "rows:a"), ("a:2", "rows:a")])


def test_conv2d_strides_leave_processors_out():
  # One window in four positions: most borders are not needed by anybody.
  check_conv(image(2, 16, 16, 1), [1, 1, 1, 2], (4, 4), "same",
             [("a:4", "rows:a"), ("a:4", "cols:a")])
  check_conv(image(1, 12, 4, 1), [2, 1, 1, 2], (3, 1), "same",
             [("a:2", "rows:a"), ("a:4", "rows:a")])


def test_conv2d_of_transposed_input_and_of_two_leading_dims():
  w = image(3, 3, 2, 4)
  check_layouts(
      lambda mesh, x, w: ops.conv2d(
          x, w, SPATIAL, 1, "same", "chin", "chout"),
      lambda x, w: tf.nn.conv2d(
          tf.transpose(x, [0, 2, 3, 1]), w, strides=1, padding="SAME"),
      [(image(2, 2, 8, 8), "batch chin rows cols"),
       (w, "k0 k1 chin chout")], SPATIAL_LAYOUTS[:4], 1e-4, 1e-4)
  check_layouts(
      lambda mesh, x, w: ops.conv2d(
          x, w, SPATIAL, 1, "same", "chin", "chout"),
      lambda x, w: tf.reshape(tf.nn.conv2d(
          tf.reshape(x, [4, 8, 8, 2]), w, strides=1, padding="SAME"),
                              [2, 2, 8, 8, 4]),
      [(image(2, 2, 8, 8, 2), "batch time rows cols chin"),
       (w, "k0 k1 chin chout")],
      [("", ""), ("a:2,b:2", "time:a,cols:b"),
       ("a:2,b:2", "rows:a,cols:b")], 1e-4, 1e-4)


def test_conv2d_used_twice_with_one_filter():
  def twice(conv, x, w):
    return conv(conv(x, w), w)

  check_layouts(
      lambda mesh, x, w: twice(lambda x, w: ops.rename(ops.conv2d(
          x, w, SPATIAL, 1, "same", "chin", "chout"), "chout", "chin"), x, w),
      lambda x, w: twice(lambda x, w: tf.nn.conv2d(
          x, w, strides=1, padding="SAME"), x, w),
      [(image(2, 4, 4, 2), DIMS), (image(3, 3, 2, 2), "k0 k1 chin chout")],
      [("", ""), ("a:2", "rows:a"), ("a:2,b:2", "chin:a,chout:b")],
      1e-4, 1e-4)


@pytest.mark.parametrize("pool, strides, padding", [
    (2, None, "valid"), (3, 2, "same"), ((3, 2), (1, 2), "same"),
    (5, 2, "same")])
def test_pooling_equals_tensorflow(pool, strides, padding):
  layouts = SPATIAL_LAYOUTS + [("a:2", "chin:a")]
  if pool == 5:
    layouts = [("a:4", "rows:a"), ("a:2,b:2", "rows:b,cols:a")]
  for ours, theirs in ((ops.max_pool2d, tf.nn.max_pool2d),
                       (ops.avg_pool2d, tf.nn.avg_pool2d)):
    check_layouts(
        lambda mesh, x, ours=ours: ours(x, SPATIAL, pool, strides, padding),
        lambda x, theirs=theirs: theirs(
            x, pool, pool if strides is None else strides, padding.upper()),
        [(X, DIMS)], layouts)


def test_pooling_of_negative_values_ignores_padding():
  x = -1 - np.abs(X)
  for mesh, layout in SPATIAL_LAYOUTS[:4]:
    result = run_on_mesh(
        lambda mesh, x: ops.max_pool2d(x, SPATIAL, 3, 1, "same"),
        [(x, DIMS)], mesh, layout)
    assert result.outputs[0].max() <= -1


def test_pooling_without_channels():
  check_layouts(
      lambda mesh, x: ops.avg_pool2d(x, SPATIAL, 2),
      lambda x: tf.nn.avg_pool2d(x[:, :, :, None], 2, 2, "VALID")[..., 0],
      [(X[..., 0], "batch rows cols")], SPATIAL_LAYOUTS)


def test_window_exchanges_once_per_direction_and_not_for_an_unused_gradient():
  w = image(3, 3, 2, 4)

  def conv(x, w):
    return ops.conv2d(x, w, SPATIAL, 1, "same", "chin", "chout")

  inputs = [(X, DIMS), (w, "k0 k1 chin chout")]
  result = run_on_mesh(lambda mesh, x, w: conv(x, w), inputs,
                       "a:2,b:2", "rows:a,cols:b")
  assert result.collectives == [
      ("fetch", ("a",)), ("fetch", ("b",)), ("return", ("b",)),
      ("return", ("a",))]
  # Here only the filter's gradient is asked for.
  result = run_on_mesh(
      lambda mesh, x, w: mtf.gradients([conv(x, w)], [w])[0], inputs,
      "a:2", "rows:a", gradients=False)
  assert result.collectives == [("fetch", ("a",))]


def test_window_errors():
  w = image(3, 3, 2, 4)

  def conv(mesh="", layout="", x=X, w=w, strides=1, padding="same",
           names="k0 k1 chin chout"):
    return run_on_mesh(
        lambda mesh, x, w: ops.conv2d(
            x, w, SPATIAL, strides, padding, "chin", "chout"),
        [(x, DIMS), (w, names)], mesh, layout)

  with pytest.raises(ArgumentError, match="'full' given.*'same' and 'valid'"):
    conv(padding="full")
  with pytest.raises(ArgumentError, match="strides .0, 1. given"):
    conv(strides=(0, 1))
  with pytest.raises(DimensionError, match="size 9 over 8 positions"):
    conv(w=image(9, 3, 2, 4), padding="valid")
  with pytest.raises(DimensionError, match="filter .k0=3, k1=3, chout=2"):
    conv(names="k0 k1 chout chin", w=image(3, 3, 2, 2))
  with pytest.raises(LayoutError, match="k0 is split over axis 'a'"):
    conv("a:2", "k0:a", w=image(2, 2, 2, 4))
  with pytest.raises(LayoutError, match="rows=2, split over axis 'a' of "
                                        "size 4"):
    conv("a:4", "rows:a", strides=4)
  with pytest.raises(DimensionError, match="not adjacent"):
    run_on_mesh(lambda mesh, x: ops.max_pool2d(x, ("cols", "rows"), 2),
                [(X, DIMS)])
  with pytest.raises(DimensionError, match="type int32 given"):
    run_on_mesh(lambda mesh, x: ops.max_pool2d(x, SPATIAL, 2),
                [(X.astype(np.int32), DIMS)])
