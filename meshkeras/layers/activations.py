"""Activation functions of tensors of the mesh, under Keras's names.

Each takes and returns an mtf.Tensor. All are componentwise and need no
traffic, except the two softmax ones.
"""

import math

from meshkeras import ops
from meshkeras.errors import ArgumentError, DimensionError
from meshkeras.layers.configured import look_up
from meshkeras.mesh.dimension import format_dims
from meshkeras.upstream import tf

_LOGITS = "_meshkeras_logits"


def linear(x):
  """Returns x."""
  return x


def relu(x):
  """Returns max(x, 0)."""
  return ops.elementwise(tf.nn.relu, [x])


def leaky_relu(x, negative_slope=0.2):
  """Returns x where it is positive, negative_slope * x elsewhere."""
  return ops.elementwise(
      lambda t: tf.nn.leaky_relu(t, alpha=negative_slope), [x],
      name="leaky_relu")


def elu(x, alpha=1.0):
  """Returns x where it is positive, alpha * (exp(x) - 1) elsewhere."""
  if alpha == 1.0:
    return ops.elementwise(tf.nn.elu, [x])
  return ops.elementwise(
      lambda t: tf.where(t > 0, t, alpha * tf.nn.elu(t)), [x], name="elu")


def selu(x):
  """Returns elu(x) scaled so that activations keep mean 0, variance 1."""
  return ops.elementwise(tf.nn.selu, [x])


def gelu(x, approximate=False):
  """Returns x * P(normal < x), or its tanh approximation."""
  def tf_fn(t):
    if approximate:
      inner = math.sqrt(2 / math.pi) * (t + 0.044715 * t * t * t)
      return 0.5 * t * (1.0 + tf.tanh(inner))
    return 0.5 * t * (1.0 + tf.math.erf(t / math.sqrt(2)))

  return ops.elementwise(tf_fn, [x], name="gelu")


def silu(x):
  """Returns x * sigmoid(x), also called swish."""
  return ops.elementwise(lambda t: t * tf.sigmoid(t), [x], name="silu")


def softplus(x):
  """Returns log(exp(x) + 1)."""
  return ops.elementwise(tf.nn.softplus, [x])


def tanh(x):
  """Returns the hyperbolic tangent."""
  return ops.elementwise(tf.tanh, [x])


def exponential(x):
  """Returns exp(x)."""
  return ops.elementwise(tf.exp, [x])


def sigmoid(x):
  """Returns 1 / (1 + exp(-x)); BinaryCrossentropy sees the x behind it."""
  return _with_logits(ops.elementwise(tf.sigmoid, [x]), x, "sigmoid")


def softmax(x):
  """Returns exp(x) divided by its sum over the last dim.

  The cross entropies and the accuracies see the x behind it, so that they
  are exact and add no traffic.

  When split:
    last dim: a maximum and a sum over its axis, x.size / last dim each.

  Raises:
    DimensionError: the batch is the only dim.
  """
  return _with_logits(ops.softmax(x, _last_dim(x)), x, "softmax")


def log_softmax(x):
  """Returns the logarithm of softmax(x).

  When split:
    last dim: as softmax.

  Raises:
    DimensionError: the batch is the only dim.
  """
  return ops.log_softmax(x, _last_dim(x))


def logits_behind(y, kind):
  """Returns the x of which y is the softmax or sigmoid, or None.

  Args:
    y: mtf.Tensor.
    kind: "softmax" or "sigmoid".
  """
  made_by, x = getattr(y, _LOGITS, (None, None))
  return x if made_by == kind else None


_KNOWN = {
    function.__name__: function for function in (
        linear, relu, leaky_relu, elu, selu, gelu, silu, softplus, tanh,
        exponential, sigmoid, softmax, log_softmax)}
_KNOWN["swish"] = silu


def get(identifier):
  """Returns an activation function.

  Args:
    identifier: None for `linear`, a name, or a function of an mtf.Tensor.

  Raises:
    ArgumentError: the name is not known, or it is no function.

  Example:
    >>> get("swish").__name__
    'silu'
  """
  if identifier is None:
    return linear
  function = look_up("activation", identifier, _KNOWN)
  if not callable(function):
    raise ArgumentError(
        "activation=%r given; accepted are a name, None or a function of a "
        "tensor. Give one of them." % (identifier,))
  return function


def _last_dim(x):
  if len(x.shape.dims) < 2:
    raise DimensionError(
        "softmax: input [%s] given; accepted is [batch, ..., classes]. Give "
        "it a dim after the batch." % format_dims(x.shape.dims))
  return x.shape.dims[-1]


def _with_logits(y, x, kind):
  """Notes on y what it was made of, as losses want that x."""
  if y is not x:
    setattr(y, _LOGITS, (kind, x))
  return y
