"""Random values that no layout changes."""

from meshkeras.errors import ArgumentError
from meshkeras.ops.dims import as_shape
from meshkeras.ops.elementwise import elementwise
from meshkeras.store import counter_random
from meshkeras.upstream import mtf, tf


def random_uniform(mesh, shape, name):
  """Returns float32 values in [0, 1), other ones at every step.

  A value is a function of the model's seed, the name, the step and the
  global position, so that every layout sees the same ones.

  Args:
    mesh: mtf.Mesh.
    shape: mtf.Shape or ((name, size), ...).
    name: what the values are for, such as "dropout_1/mask"; one name and
      position give one value.

  Dimensions:
    result: [shape]

  When split:
    any dimension: no traffic; each processor draws its own part only.
  """
  return RandomUniformOperation(mesh, as_shape(shape), name).outputs[0]


def dropout_mask(mesh, shape, rate, name, dtype=tf.float32):
  """Returns 0 with probability `rate`, elsewhere 1 / (1 - rate).

  Args:
    mesh: mtf.Mesh.
    shape: mtf.Shape or ((name, size), ...).
    rate: share of zeros, in [0, 1).
    name: as for `random_uniform`.
    dtype: type of the mask.

  Dimensions:
    result: [shape]

  When split:
    any dimension: no traffic.

  Raises:
    ArgumentError: rate is not in [0, 1).

  Example:
    >>> mesh = mtf.Mesh(mtf.Graph(), "mesh")
    >>> dropout_mask(mesh, [("batch", 4)], 0.5, "dropout/mask").shape
    Shape[batch=4]
  """
  if not 0 <= rate < 1:
    raise ArgumentError(
        "dropout_mask %r: rate %r given; accepted is a number from 0 to "
        "below 1. Use the share of values to drop." % (name, rate))
  dtype = tf.as_dtype(dtype)

  def to_mask(uniform):
    return tf.cast(uniform >= rate, dtype) * tf.constant(
        1 / (1 - rate), dtype)

  return elementwise(
      to_mask, [random_uniform(mesh, shape, name)], dtype=dtype)


class RandomUniformOperation(mtf.Operation):
  """See `random_uniform`."""

  def __init__(self, mesh, shape, key_name):
    super().__init__([], mesh, name="random_uniform")
    self._key_name = key_name
    self._outputs = [mtf.Tensor(self, shape, tf.float32)]

  @property
  def has_gradient(self):
    return False

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    y = self.outputs[0]
    key = counter_random.make_key(impl.seed, self._key_name)
    sizes = y.shape.to_integer_list

    def local(rank):
      return counter_random.tf_uniform(
          key, impl.step, sizes, impl.box(y.shape, rank))

    lowering.set_tensor_lowering(y, impl.slicewise_by_rank(local))
