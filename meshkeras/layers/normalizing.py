"""What the normalising layers share."""

from meshkeras import ops
from meshkeras.errors import DimensionError
from meshkeras.mesh.dimension import format_dims
from meshkeras.upstream import tf


def dims_at(layer, axis, input_shape):
  """Returns the dims of an input that the argument `axis` means.

  Args:
    layer: has `label`.
    axis: a position or a list of them, the batch being 0.
    input_shape: mtf.Shape.

  Raises:
    DimensionError: there is none, or it is the batch.
  """
  dims = input_shape.dims
  positions = axis if isinstance(axis, (list, tuple)) else [axis]
  found = []
  for position in positions:
    whole = isinstance(position, int) and not isinstance(position, bool)
    if not whole or not -len(dims) < position < len(dims) or position == 0:
      raise DimensionError(
          "%s: axis=%r given for an input [%s]; accepted are whole numbers "
          "from 1 to %d, or -1 for the last, not the batch. Correct axis."
          % (layer.label, axis, format_dims(dims), len(dims) - 1))
    found.append(dims[position])
  return [dim for dim in dims if dim in found]


def normalized(x, mean, variance, layer):
  """Returns (x - mean) / sqrt(variance + epsilon) * gamma + beta.

  Args:
    x: mtf.Tensor of floating-point type.
    mean: mtf.Tensor of some of x's dims.
    variance: the same.
    layer: has `epsilon`, `gamma` and `beta`, the last two Weight or None.

  Returns: mtf.Tensor like x; half precisions are computed in float32.
  """
  weights = [weight for weight in (layer.gamma, layer.beta)
             if weight is not None]
  has_gamma, has_beta = layer.gamma is not None, layer.beta is not None

  def tf_fn(x, mean, variance, *values):
    values = [tf.cast(value, mean.dtype) for value in values]
    gamma = values.pop(0) if has_gamma else None
    beta = values.pop(0) if has_beta else None
    y = tf.nn.batch_normalization(
        tf.cast(x, mean.dtype), mean, variance, beta, gamma, layer.epsilon)
    return tf.cast(y, x.dtype)

  return ops.elementwise(
      tf_fn, [x, mean, variance] + [weight.read() for weight in weights],
      name="normalized")
