"""Sequential: one layer after another."""

from meshkeras.errors import ArgumentError, OrderError
from meshkeras.layers import get as get_layer
from meshkeras.layers.configured import plain_value
from meshkeras.layers.input import Input
from meshkeras.layers.layer import Layer
from meshkeras.models.model import Model


class Sequential(Model):
  """A model whose layers are applied one after another.

  Args:
    layers: list of an Input, first, and Layer. Without an Input the shape
      comes from the first data, with dims "input_0", "input_1", ...
    name: what messages call it.

  Raises:
    ArgumentError: an entry is no Layer, or an Input is not the first.

  Example:
    >>> from meshkeras import layers
    >>> model = Sequential([
    ...     Input((8, 8), dims=("rows", "cols")), layers.Flatten(),
    ...     layers.Dense(10, dim="classes")])
    >>> model.count_params()
    650
  """

  def __init__(self, layers=None, name=None):
    super().__init__(name=name)
    self._layers = []
    if isinstance(layers, (Layer, Input)):
      layers = [layers]
    for layer in layers or []:
      self.add(layer)

  def add(self, layer):
    """Appends a layer; an Input can only come first.

    Raises:
      OrderError: the model is built already.
    """
    if self.built:
      raise OrderError(
          "%s: add called after the model was built. Add every layer before "
          "compile." % self.name)
    if isinstance(layer, Input):
      if self.input is not None or self._layers:
        raise ArgumentError(
            "%s: an Input is given at position %d; one is accepted, as the "
            "first entry. Move or remove it."
            % (self.name, len(self._layers) + (self.input is not None)))
      self.input = layer
      return
    if not isinstance(layer, Layer):
      raise ArgumentError(
          "%s: entry %d is %r; accepted are layers. Give an object of a "
          "class that derives from meshkeras.layers.Layer."
          % (self.name, len(self._layers), layer))
    self._layers.append(layer)

  @property
  def layers(self):
    return list(self._layers)

  def get_config(self):
    """Returns {argument name: plain value}, enough to build an equal one."""
    parts = ([] if self.input is None else [self.input]) + self._layers
    return {"name": self.name,
            "layers": [plain_value(part, self.name) for part in parts]}

  @classmethod
  def from_config(cls, config):
    """Returns a model built from what `get_config` returned."""
    return cls([get_layer(part) for part in config["layers"]],
               name=config["name"])

  def call(self, x, training=False):
    for layer in self._layers:
      x = layer(x)
    return x
