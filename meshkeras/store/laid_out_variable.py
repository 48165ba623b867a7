"""This process's part of one variable."""

import functools

from meshkeras.mesh import slices
from meshkeras.upstream import tf


class LaidOutVariable:
  """The slices of one named variable that this process holds.

  One `tf` resource variable per local processor: one under Horovod, one per
  simulated processor otherwise. There is no full-size copy anywhere.

  Args:
    name: unique in the store.
    dims: ((name, size), ...) of the full value.
    dtype: tf.DType.
    initializer: gives the initial value of a box; see `VariableStore`.
    trainable: whether training changes it by gradients.
    role: "weight" or "slot".
  """

  def __init__(self, name, dims, dtype, initializer, trainable, role):
    self.name = name
    self.dims = tuple((str(dim), int(size)) for dim, size in dims)
    self.dtype = dtype
    self.initializer = initializer
    self.trainable = trainable
    self.role = role
    self.boxes = {}
    self.variables = []
    self.placeholders = []
    self.assign_ops = []
    self.reads = []
    self.initialized = False
    self._box_reads = {}

  def allocate(self, mesh, layout, ranks):
    """Makes the slices' variables in the current graph."""
    for rank in ranks:
      box = slices.slice_box(self.dims, layout, mesh, rank)
      self.boxes[rank] = box
      shape = list(slices.box_shape(box))
      # tf.Variable, not tf.get_variable: this runs inside the scope whose
      # getter keeps Mesh TF from making a master copy.
      variable = tf.Variable(
          functools.partial(tf.zeros, shape, self.dtype), trainable=False,
          collections=[], use_resource=True, dtype=self.dtype,
          name="store/%s/slice_%d" % (self.name, rank))
      # Values come from the host, slice by slice; the initialiser above is
      # never run.
      placeholder = tf.placeholder(self.dtype, shape)
      self.variables.append(variable)
      self.reads.append(variable.read_value())
      self.placeholders.append(placeholder)
      self.assign_ops.append(
          tf.raw_ops.AssignVariableOp(
              resource=variable.handle, value=placeholder))

  def box_read(self, rank):
    """Returns (tensor of a box of a slice, its begin and its size to feed).

    Made when first asked for, in the current graph.
    """
    if rank not in self._box_reads:
      index = list(self.boxes).index(rank)
      begin, size = (tf.placeholder(tf.int64, [len(self.dims)])
                     for _ in range(2))
      self._box_reads[rank] = tf.slice(self.reads[index], begin, size), (
          begin, size)
    return self._box_reads[rank]

  @property
  def full_shape(self):
    return tuple(size for _, size in self.dims)

  @property
  def num_bytes(self):
    """Bytes this process holds."""
    return sum(slices.box_size(box) for box in self.boxes.values()) * (
        self.dtype.size)


class LoweredVariable:
  """What a lowering sees of a LaidOutVariable: Mesh TF's interface."""

  def __init__(self, stored, mesh_impl):
    self._stored = stored
    self._laid_out_tensor = mesh_impl.LaidOutTensor(
        [variable.read_value() for variable in stored.variables])

  @property
  def stored(self):
    return self._stored

  @property
  def variables(self):
    """The `tf` resource variables, one per local processor."""
    return self._stored.variables

  @property
  def laid_out_tensor(self):
    return self._laid_out_tensor

  def assign_to_slices(self, assign_fn, values):
    """Returns a tf.Operation that assigns to every local slice.

    Args:
      assign_fn: function (mtf.Variable, tf variable, tf.Tensor) -> op.
      values: one tf.Tensor per local processor.
    """
    return tf.group([
        assign_fn(_SliceDType(self._stored.dtype), variable, value)
        for variable, value in zip(self._stored.variables, values)])

  @property
  def copy_master_to_slices(self):
    """Nothing: there is no master. Kept for Mesh TF's Lowering."""
    return tf.no_op()

  @property
  def copy_slices_to_master(self):
    """Nothing: there is no master. Kept for Mesh TF's Lowering."""
    return tf.no_op()


class _SliceDType:
  """The one attribute of an mtf.Variable that its assign functions read."""

  def __init__(self, slice_dtype):
    self.slice_dtype = slice_dtype
