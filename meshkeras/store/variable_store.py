"""All variables of a model by name, as this process's slices."""

import contextlib

import numpy as np

from meshkeras.errors import (
  DimensionError,
  InternalError,
  MeshKerasError,
  near_names,
)
from meshkeras.mesh import host_collectives, slices
from meshkeras.mesh.dimension import format_dims
from meshkeras.store import counter_random
from meshkeras.store.laid_out_variable import LaidOutVariable
from meshkeras.upstream import tf

# TensorFlow cuts tensors of so many dims.
_MOST_DIMS_OF_A_SLICE = 8
# The class that TensorFlow's own initializers share.
_TF_INITIALIZER = tf.zeros_initializer.__mro__[-2]


class VariableStore:
  """The only storage of a model's weights and optimizer slots.

  Every function of a model (train, evaluate, predict) is lowered against
  the same store and finds its variables by name.

  Args:
    mesh: Mesh.
    layout: Layout.
    local_ranks: the processors this process runs.
    graph: tf.Graph that holds the variables.
    session: tf.Session on it.
    seed: the model's seed, for initial values.
  """

  def __init__(self, mesh, layout, local_ranks, graph, session, seed):
    self.mesh = mesh
    self.layout = layout
    self.local_ranks = tuple(local_ranks)
    self.seed = seed
    self._graph = graph
    self._session = session
    self._variables = {}
    self._slot_names = set()

  def __getitem__(self, name):
    try:
      return self._variables[name]
    except KeyError:
      raise MeshKerasError(
          "VariableStore: no variable %r; %s"
          % (name, near_names(name, self._variables))) from None

  def __contains__(self, name):
    return name in self._variables

  def __iter__(self):
    return iter(self._variables.values())

  def __len__(self):
    return len(self._variables)

  def names(self):
    """Returns the names in the order of creation."""
    return list(self._variables)

  def create(self, name, dims, dtype, initializer, *, trainable, role):
    """Returns the variable `name`, made on first use.

    Args:
      name: unique name, such as "dense/kernel".
      dims: ((name, size), ...).
      dtype: tf.DType.
      initializer: function (key, sizes, box, dtype) -> NumPy array [box],
        or a TensorFlow initializer.
      trainable: whether gradients change it.
      role: "weight" or "slot".

    Raises:
      DimensionError: it exists with other dims.
    """
    dims = tuple((str(dim), int(size)) for dim, size in dims)
    if name in self._variables:
      stored = self._variables[name]
      if stored.dims != dims:
        raise DimensionError(
            "Variable %r: [%s] asked for, the store has [%s]. Give one of "
            "the two another name."
            % (name, format_dims(dims), format_dims(stored.dims)))
      return stored
    stored = LaidOutVariable(name, dims, tf.as_dtype(dtype).base_dtype,
                             initializer, trainable, role)
    with self._graph.as_default(), tf.control_dependencies(None):
      stored.allocate(self.mesh, self.layout, self.local_ranks)
    self._variables[name] = stored
    return stored

  def creating_for_mesh_tensorflow(self):
    """See `variables_without_masters`."""
    return variables_without_masters()

  def declare_slot(self, name):
    """Says that the variable `name` will belong to the optimizer."""
    self._slot_names.add(name)

  def drop_slots(self):
    """Forgets the optimizer's variables: another optimizer comes."""
    for name in self._slot_names & set(self._variables):
      del self._variables[name]
    self._slot_names = set()

  def laid_out(self, variable):
    """Returns the stored variable behind an mtf.Variable."""
    master = variable.get_master()
    if not isinstance(master, _MasterStub):
      raise InternalError(
          "Variable %r was made outside creating_for_mesh_tensorflow, so it "
          "has a full-size master copy." % variable.name)
    role = "slot" if variable.name in self._slot_names else "weight"
    return self.create(
        variable.name, variable.shape.dims, variable.slice_dtype,
        master.initializer, trainable=variable.trainable, role=role)

  def initialize(self):
    """Gives every variable without a value its initial value.

    The full value is the same, bit for bit, at every layout and number of
    processes; each process computes its own slices.
    """
    for stored in self._variables.values():
      if not stored.initialized:
        self.write_slices(stored.name, _initial_slices(stored, self.seed))

  def read_slices(self, name):
    """Returns {rank: NumPy array} of this process's slices."""
    stored = self[name]
    return dict(zip(stored.boxes, self._session.run(stored.reads)))

  def read_box(self, name, rank, box):
    """Returns the NumPy array of a part of a slice of this process.

    Args:
      name: variable.
      rank: the local processor whose slice it is.
      box: in positions of the full value, within the slice's.
    """
    stored = self[name]
    held = stored.boxes[rank]
    if box == held or len(box) > _MOST_DIMS_OF_A_SLICE:
      value = self._session.run(
          stored.reads[list(stored.boxes).index(rank)])
      return value[slices.relative(box, held) + (Ellipsis,)]
    with self._graph.as_default():
      tensor, (begin, size) = stored.box_read(rank)
    return self._session.run(tensor, {
        begin: [b - origin for (b, _), (origin, _) in zip(box, held)],
        size: slices.box_shape(box)})

  def write_slices(self, name, values):
    """Sets this process's slices.

    Args:
      name: variable.
      values: {rank: array of the slice's shape}, or an iterable of
        (rank, array) pairs, so that one slice need exist at a time.
        TensorFlow may keep an array as it is: nobody may change it later.
    """
    stored = self[name]
    index = {rank: i for i, rank in enumerate(stored.boxes)}
    pairs = values.items() if isinstance(values, dict) else values
    for rank, value in pairs:
      i = index[rank]
      self._session.run(
          stored.assign_ops[i], {stored.placeholders[i]: value})
    stored.initialized = True

  def gather(self, name):
    """Returns the full value of `name` as a NumPy array.

    Called by: every process. Each owner's slice travels once to all others.
    """
    stored = self[name]
    local = self.read_slices(name)
    dtype = np.dtype(stored.dtype.as_numpy_dtype)
    full = np.empty(stored.full_shape, dtype)
    if len(self.local_ranks) == self.mesh.size:
      for rank, value in local.items():
        full[slices.relative(stored.boxes[rank], _origin(stored))] = value
      return full
    rank = self.local_ranks[0]
    owned = self.replica_group(name, rank)[0] == rank
    payload = np.ascontiguousarray(local[rank]).reshape(-1) if owned else (
        np.empty(0, dtype))
    parts = host_collectives.gather_bytes(payload.view(np.uint8))
    for sender, part in enumerate(parts):
      box = slices.slice_box(stored.dims, self.layout, self.mesh, sender)
      if self.replica_group(name, sender)[0] == sender:
        full[slices.relative(box, _origin(stored))] = (
            part.view(dtype).reshape(slices.box_shape(box)))
    return full

  def scatter(self, name, value):
    """Sets `name` from its full value, of which each process takes its part.

    Raises:
      DimensionError: the shape is another one.
    """
    stored = self[name]
    value = np.asarray(value)
    if value.shape != stored.full_shape:
      raise DimensionError(
          "Variable %r [%s]: a value of shape %s given, %s expected."
          % (name, format_dims(stored.dims), value.shape, stored.full_shape))
    dtype = stored.dtype.as_numpy_dtype
    self.write_slices(name, (
        # A copy: TensorFlow may keep what it is given as the variable's own
        # memory, and the caller may change the value later.
        (rank, np.array(
            value[slices.relative(box, _origin(stored))], dtype))
        for rank, box in stored.boxes.items()))

  def replica_group(self, name, rank):
    """Returns the ranks that hold the same part of `name` as `rank`."""
    return slices.replica_group(
        self[name].dims, self.layout, self.mesh, rank)

  def part_text(self, name, rank):
    """Returns the part of `name` that `rank` holds, as "in 0:4, out 4:8"."""
    dims = self[name].dims
    box = slices.slice_box(dims, self.layout, self.mesh, rank)
    return ", ".join("%s %d:%d" % (dim, begin, end)
                     for (dim, _), (begin, end) in zip(dims, box)) or "all"


@contextlib.contextmanager
def variables_without_masters():
  """A scope in which Mesh TF's variables have no full-size master.

  Mesh TF makes a full-size variable by tf.get_variable and copies slices
  from it. Here the getter hands it a stub with the attributes it reads; the
  store allocates the slices when the graph is lowered.
  """
  def stub(getter, name, shape=None, dtype=tf.float32, initializer=None,
           trainable=True, **unused):
    del getter, unused
    return _MasterStub(name, shape, dtype, initializer, trainable)

  with tf.variable_scope(
      tf.get_variable_scope(), custom_getter=stub, reuse=tf.AUTO_REUSE):
    yield


class _MasterStub:
  """Stands where Mesh TF expects a full-size tf.Variable."""

  def __init__(self, name, shape, dtype, initializer, trainable):
    self.name = name + ":0"
    self.shape = shape
    self.dtype = dtype
    self.initializer = initializer
    self.trainable = trainable
    self.device = ""


def _origin(stored):
  return tuple((0, size) for size in stored.full_shape)


def _initial_slices(stored, seed):
  """Yields (rank, value) of a variable's initial slices."""
  key = counter_random.make_key(seed, stored.name)
  dtype = stored.dtype.as_numpy_dtype
  for rank, box in stored.boxes.items():
    if isinstance(stored.initializer, (type(None), _TF_INITIALIZER)):
      value = _tensorflow_value(stored, key)[
          slices.relative(box, _origin(stored))]
    else:
      value = stored.initializer(key, stored.full_shape, box, dtype)
    yield rank, np.asarray(value, dtype)


def _tensorflow_value(stored, key):
  """Returns the full value of a TensorFlow initializer, with our key as seed.

  For layers of Mesh TF's own library. TensorFlow draws whole tensors only,
  so the full value exists while it is cut.
  """
  with tf.Graph().as_default(), tf.Session() as session:
    tf.set_random_seed(key & 0x7FFFFFFF)
    initializer = stored.initializer or tf.glorot_uniform_initializer()
    return session.run(initializer(stored.full_shape, dtype=stored.dtype))
