"""A layer's named weight."""

import math

from meshkeras.layers import context
from meshkeras.mesh.dimension import format_dims
from meshkeras.upstream import mtf, tf


class Weight:
  """Name, dims and first value of one weight; it holds no values itself.

  Args:
    name: "<layer name>/<weight name>", unique in the model.
    dims: sequence of mtf.Dimension, or (name, size) pairs.
    dtype: text or tf.DType.
    initializer: object called as (key, sizes, box, dtype).
    trainable: whether an optimizer changes it.
  """

  def __init__(self, name, dims, dtype, initializer, trainable=True):
    self.name = name
    self.dims = tuple(mtf.Dimension(dim, size) for dim, size in dims)
    self.dtype = tf.as_dtype(dtype)
    self.initializer = initializer
    self.trainable = trainable

  @property
  def shape(self):
    """mtf.Shape of the full value."""
    return mtf.Shape(list(self.dims))

  @property
  def size(self):
    """Number of elements of the full value."""
    return math.prod(dim.size for dim in self.dims)

  def read(self, mesh=None):
    """Returns the value, an mtf.Tensor [dims], in the graph being built.

    Args:
      mesh: mtf.Mesh; by default that of the running call.
    """
    if mesh is None:
      mesh = context.current().mesh
    return mtf.get_variable(
        mesh, self.name, self.shape, dtype=self.dtype,
        initializer=self.initializer, trainable=self.trainable)

  def assign(self, value):
    """Makes the training function set this weight to `value` [dims].

    Raises:
      OrderError: no model is being built.
    """
    running = context.current()
    running.updates.append(mtf.assign(self.read(running.mesh), value))

  def __repr__(self):
    return "Weight(%r, [%s])" % (self.name, format_dims(self.dims))
