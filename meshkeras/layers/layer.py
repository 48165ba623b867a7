"""The base class of layers."""

import inspect
import re

from meshkeras.errors import (
  ArgumentError,
  DimensionError,
  InternalError,
  MeshKerasError,
  OrderError,
)
from meshkeras.layers import context, initializers
from meshkeras.layers.configured import Configured
from meshkeras.layers.weight import Weight
from meshkeras.mesh.dimension import NAME_PATTERN, check_name, format_dims
from meshkeras.upstream import mtf, tf

BATCH = "batch"


class Layer(Configured):
  """Weights made once, and a formula over dimension names.

  Subclass it: create weights in `build`, compute in `call`. Dims are known
  by name, so that a layer is right at any layout.

  Args:
    name: what weights, and by default output dims, are called. By default
      the model gives the class's name and a number: "dense", "dense_1", ...
    trainable: whether an optimizer changes its weights. As in Keras, it may
      be set until the model is compiled.

  Raises:
    ArgumentError: a keyword that the class does not accept; a name with
      other characters than letters, digits, '_', '-' and '.'.

  Example:
    >>> class Shift(Layer):
    ...   def build(self, input_shape):
    ...     self.shift = self.add_weight("shift", input_shape.dims[-1:])
    ...   def call(self, x, training=False):
    ...     return x + self.shift.read()
    >>> Shift(name="up").get_config()
    {'name': 'up', 'trainable': True}
  """

  # Layers that make a new dim take `dim` and set it.
  dim = None

  def __init__(self, name=None, trainable=True, **options):
    self.take_options(options)
    self.name = None
    self.trainable = trainable
    self._prefix = None
    self._weights = []
    self._input_dims = None
    if name is not None:
      self.set_name(name)

  def set_name(self, name):
    """Names the layer; possible until it has weights.

    Raises:
      ArgumentError: the name has characters a layout cannot hold.
      OrderError: the layer is built.
    """
    if not isinstance(name, str) or not NAME_PATTERN.match(name):
      raise ArgumentError(
          "%s: name=%r given; accepted are letters, digits, '_', '-' and "
          "'.', the first a letter or '_'. Use such a name."
          % (type(self).__name__, name))
    if self.built and name != self.name:
      raise OrderError(
          "%s: name %r given after its weights were made. Name it when it "
          "is constructed." % (self.label, name))
    self.name = name

  def set_prefix(self, prefix):
    """Puts the layer inside another; the first one that does so counts."""
    if self._prefix is None and not self.built:
      self._prefix = prefix

  @property
  def label(self):
    """The words that open an error: "Dense 'hidden'"."""
    if self.name is None:
      return type(self).__name__
    return "%s %r" % (type(self).__name__, self.name)

  @property
  def path(self):
    """The name, behind those of the layers that contain this one."""
    return (self._prefix or "") + self.name

  @property
  def built(self):
    return self._input_dims is not None

  def build(self, input_shape):
    """Makes the weights. Called once, before the first `call`.

    Args:
      input_shape: mtf.Shape, the batch first.
    """

  def call(self, x, training=False):
    """Returns the output for `x`, both mtf.Tensor, the batch first."""
    raise ArgumentError(
        "%s: the class %s defines no call; a layer is what it computes. "
        "Define call(self, x, training=False)."
        % (self.label, type(self).__name__))

  def __call__(self, x):
    """Returns the output for `x` in the graph being built.

    Raises:
      OrderError: no model is being built.
      DimensionError: x does not suit the layer, or has other dims than at
        the first call.
    """
    running = context.current()
    if self.name is None:
      self.set_name(snake_case(type(self).__name__))
    begin = len(x.graph.operations)
    try:
      if not self.built:
        self.build(x.shape)
        self._input_dims = tuple(x.shape.dims[1:])
        name_layers(self.sublayers, prefix=self.path + "/")
      self._check_dims(x)
      y = self._call(x, running.training)
    except MeshKerasError:
      raise
    except (ValueError, NotImplementedError) as error:
      raise DimensionError(
          "%s: cannot be applied to an input [%s]: %s. Check the layer's "
          "arguments against its input."
          % (self.label, format_dims(x.shape.dims), error)) from error
    if not isinstance(y, mtf.Tensor):
      raise ArgumentError(
          "%s: call returned a %s; accepted is one mtf.Tensor. Return the "
          "output." % (self.label, type(y).__name__))
    running.calls.append(
        context.LayerCall(self, x, y, begin, len(x.graph.operations)))
    return y

  def check_input(self, rows):
    """Returns None, or a text that says what is wrong with input values.

    The model asks its first layer before it trains.

    Args:
      rows: NumPy array, the batch first.
    """
    return None

  def add_weight(self, name, dims, initializer="zeros", trainable=True,
                 dtype=None):
    """Returns a new Weight; for use in `build`.

    Args:
      name: unique in the layer.
      dims: sequence of mtf.Dimension or (name, size).
      initializer: name or object.
      trainable: False for what an optimizer leaves alone.
      dtype: by default float32.

    Raises:
      ArgumentError: the layer has a weight of that name.
      DimensionError: two dims have one name, so could not be told apart.
    """
    full_name = "%s/%s" % (self.path, name)
    if any(weight.name == full_name for weight in self._weights):
      raise ArgumentError(
          "%s: weight %r is made twice; each has its own name. Give the "
          "second another name." % (self.label, name))
    weight = Weight(full_name, dims, dtype or "float32",
                    initializers.get(initializer), trainable)
    names = [dim.name for dim in weight.dims]
    if len(set(names)) < len(names):
      raise DimensionError(
          "%s: weight %r has dims [%s], two of one name; each needs its "
          "own. Rename one with dim=."
          % (self.label, name, format_dims(weight.dims)))
    self._weights.append(weight)
    return weight

  @property
  def sublayers(self):
    """Layers kept in attributes, or in lists, tuples or dicts there."""
    found = []
    for value in vars(self).values():
      if isinstance(value, dict):
        value = list(value.values())
      for item in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(item, Layer) and item not in found:
          found.append(item)
    return found

  @property
  def weights(self):
    """All weights in the order made, those of sublayers last."""
    return self._weights + [
        weight for layer in self.sublayers for weight in layer.weights]

  @property
  def trainable_weights(self):
    if not self.trainable:
      return []
    return [weight for weight in self._weights if weight.trainable] + [
        weight for layer in self.sublayers
        for weight in layer.trainable_weights]

  @property
  def non_trainable_weights(self):
    trainable = self.trainable_weights
    return [weight for weight in self.weights if weight not in trainable]

  def count_params(self):
    """Returns the number of elements of all weights' full values.

    Raises:
      OrderError: the layer has no weights yet because it is not built.
    """
    if not self.built:
      raise OrderError(
          "%s: count_params called before the layer is built; its weights "
          "depend on its input. Build the model first." % self.label)
    return sum(weight.size for weight in self.weights)

  def set_dim(self, dim):
    """Takes the argument `dim` of a layer that makes a dim.

    Raises:
      DimensionError: the name cannot stand in a layout.
    """
    self.dim = None if dim is None else check_name(dim, self.label)

  def new_dim(self, size, others):
    """Returns the mtf.Dimension that this layer makes.

    Args:
      size: its size.
      others: the dims that stay beside it in the output.

    Raises:
      DimensionError: one of the others has its name.
    """
    name = self.dim or self.name
    if name in [dim.name for dim in others]:
      raise DimensionError(
          "%s: its output dimension would be %s=%d beside the input's [%s]; "
          "names differ within a tensor. Give it another name with dim=."
          % (self.label, name, size, format_dims(others)))
    return mtf.Dimension(name, size)

  def require_ndims(self, input_shape, ndims, meaning):
    """Checks the number of dims of an input.

    Args:
      input_shape: mtf.Shape.
      ndims: the number wanted.
      meaning: what they are, such as "[batch, rows, columns, channels]".

    Raises:
      DimensionError: the input has another number.
    """
    if len(input_shape.dims) != ndims:
      raise DimensionError(
          "%s: input [%s] given, of %d dims; accepted are %d, %s. Change the "
          "input or the layer before."
          % (self.label, format_dims(input_shape.dims),
             len(input_shape.dims), ndims, meaning))

  def _call(self, x, training):
    if "training" in inspect.signature(self.call).parameters:
      return self.call(x, training=training)
    return self.call(x)

  def _check_dims(self, x):
    if self._input_dims is None:
      raise InternalError("%s: called before it was built" % self.label)
    if tuple(x.shape.dims[1:]) != self._input_dims:
      raise DimensionError(
          "%s: input [%s] given after it was built for [%s]; a layer has one "
          "input shape. Use a second layer, or make the inputs equal."
          % (self.label, format_dims(x.shape.dims[1:]),
             format_dims(self._input_dims)))


def summed_dim(dim, out):
  """Returns the dim over which a layer sums, named apart from its output's.

  A weight cannot have one name twice, so the input's dim becomes
  "<name>_in" where the two are equal.

  Args:
    dim: mtf.Dimension of the input.
    out: mtf.Dimension of the output.
  """
  if dim.name != out.name:
    return dim
  return mtf.Dimension(dim.name + "_in", dim.size)


def as_float(x):
  """Returns x, or its float32 values if it is of whole numbers or bool."""
  if x.dtype.is_floating or x.dtype.is_complex:
    return x
  return mtf.cast(x, tf.float32)


def name_layers(layers, prefix=""):
  """Names the layers that have no name: "dense", "dense_1", ... in order.

  Names depend on the layers given alone, never on models made before, so
  that every process and every run agrees on them.

  Args:
    layers: sequence of Layer.
    prefix: path of the layer that contains them, "" in a model.

  Raises:
    ArgumentError: two layers were given one name.
  """
  taken = {}
  for layer in layers:
    if layer.name is None:
      continue
    if taken.setdefault(layer.name, layer) is not layer:
      raise ArgumentError(
          "Layers: two have the name %r; each has its own. Rename one, or "
          "leave the name out." % layer.name)
  for layer in layers:
    if layer.name is None:
      base = snake_case(type(layer).__name__)
      name, number = base, 0
      while name in taken:
        number += 1
        name = "%s_%d" % (base, number)
      layer.set_name(name)
      taken[name] = layer
    layer.set_prefix(prefix)


def snake_case(class_name):
  """Returns a class's name as a layer's default name.

  Example:
    >>> snake_case("MaxPooling2D"), snake_case("Dense")
    ('max_pooling2d', 'dense')
  """
  words = re.sub(r"([a-z])([A-Z])", r"\1_\2", class_name)
  words = re.sub(r"([A-Z0-9])([A-Z][a-z])", r"\1_\2", words)
  return words.lower().lstrip("_")
