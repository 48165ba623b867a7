"""Updates of variables in place."""

from meshkeras.errors import InternalError
from meshkeras.ops.dims import reduced
from meshkeras.upstream import mtf, tf


def apply_update(variables, inputs, tf_fn, name="update"):
  """Returns an operation that runs tf_fn on every slice of variables.

  For rules that are the same for every position, such as an optimizer's:
  TensorFlow's fused kernels then work on slices as they are.

  Args:
    variables: list of mtf.Variable.
    inputs: list of tensors (gradients, scalars), laid out as the variables
      are where tf_fn needs them to be.
    tf_fn: function (list of tf resource variables, list of slices) ->
      tf.Operation.
    name: names the operation.

  When split:
    any dimension: no traffic, but an input that is a sum not reduced yet is
      reduced.

  Returns: mtf.Operation, in `lowering.operations` once it is lowered;
    nothing runs until a session fetches that.
  """
  return UpdateOperation(variables, inputs, tf_fn, name)


class UpdateOperation(mtf.Operation):
  """See `apply_update`; a subclass may give its own `lower_slice`."""

  def __init__(self, variables, inputs, tf_fn=None, name="update"):
    super().__init__(list(inputs), variables[0].mesh, name=name)
    self._variables = list(variables)
    self._tf_fn = tf_fn

  @property
  def variables(self):
    """The mtf.Variables that are changed."""
    return list(self._variables)

  @property
  def has_gradient(self):
    return False

  def lower_slice(self, variables, slices):
    """Returns the tf.Operation that updates one slice of each variable."""
    return self._tf_fn(variables, slices)

  def lower(self, lowering):
    impl = lowering.mesh_impl(self)
    stored = [lowering.variables[v].variables for v in self._variables]
    slices = [reduced(lowering, x).all_slices for x in self.inputs]
    if any(len(per_rank) != len(impl.local_ranks)
           for per_rank in stored + slices):
      raise InternalError(
          "update %r: %s slices for %d local processors; report this with "
          "the mesh." % (self.name, [len(s) for s in stored + slices],
                         len(impl.local_ranks)))
    lowering.operations[self] = tf.group([
        self.lower_slice([s[i] for s in stored], [s[i] for s in slices])
        for i in range(len(impl.local_ranks))])
