"""Embedding: one vector per whole number."""

import numpy as np

from meshkeras import ops
from meshkeras.errors import DimensionError
from meshkeras.layers import initializers
from meshkeras.layers.arguments import whole_number
from meshkeras.layers.layer import Layer
from meshkeras.mesh.dimension import check_name
from meshkeras.upstream import mtf, tf


class Embedding(Layer):
  """y[..., out] = embeddings[x[...], out].

  Args:
    input_dim: size of the vocabulary; x has values from 0 to input_dim - 1.
    output_dim: size of a vector.
    embeddings_initializer: name or object.
    dim: name of the output dim; default the layer's name.
    vocabulary_dim: name of the vocabulary's dim; default
      "<layer name>_vocabulary".

  Dimensions:
    x: [batch, ...], whole numbers
    embeddings: [vocabulary, out]
    y: [batch, ..., out]

  When split:
    vocabulary: y is a sum over its axis, y.size per process.
    out: no traffic.

  Raises:
    ArgumentError: a size is no whole number of at least 1.
    DimensionError: x is not of whole numbers; a dim of x has the output's
      name.

  Example:
    >>> Embedding(1000, 16, vocabulary_dim="words").get_config()["input_dim"]
    1000
  """

  def __init__(self, input_dim, output_dim, embeddings_initializer="uniform",
               dim=None, vocabulary_dim=None, **options):
    super().__init__(**options)
    self.input_dim = whole_number(self.label, "input_dim", input_dim)
    self.output_dim = whole_number(self.label, "output_dim", output_dim)
    self.embeddings_initializer = initializers.get(embeddings_initializer)
    self.set_dim(dim)
    if vocabulary_dim is not None:
      check_name(vocabulary_dim, self.label)
    self.vocabulary_dim = vocabulary_dim

  def build(self, input_shape):
    vocabulary = mtf.Dimension(
        self.vocabulary_dim or self.name + "_vocabulary", self.input_dim)
    out = self.new_dim(self.output_dim, input_shape.dims)
    self.embeddings = self.add_weight(
        "embeddings", [vocabulary, out], self.embeddings_initializer)
    self._vocabulary = vocabulary

  def call(self, x, training=False):
    if not x.dtype.is_integer:
      raise DimensionError(
          "%s: input of type %s given; accepted are whole numbers, which "
          "pick rows. Give the Input dtype='int32'."
          % (self.label, x.dtype.name))
    if x.dtype not in (tf.int32, tf.int64):
      x = mtf.cast(x, tf.int32)
    return ops.gather(self.embeddings.read(), x, self._vocabulary)

  def check_input(self, rows):
    bad = (rows < 0) | (rows >= self.input_dim)
    if not bad.any():
      return None
    position = tuple(np.argwhere(bad)[0])
    return (
        "%s: value %s at row %s given; accepted are whole numbers from 0 to "
        "%d. Correct the input, or make input_dim larger."
        % (self.label, rows[position],
           ", ".join(str(i) for i in position), self.input_dim - 1))
