"""One weight for each row: sample weights, class weights, their product."""

import math
import numbers

import numpy as np

from meshkeras.data.sources import ArraySource, OnesSource, as_array
from meshkeras.errors import ArgumentError, DataError


class ClassWeightSource:
  """The weight of each row's class.

  Args:
    labels: array [rows] or [rows, 1] of class numbers, or [rows, classes]
      with the class where the row is largest.
    class_weight: {class number: weight}; a class that is not named weighs
      1, as in Keras.
    where: the words that open an error.

  Raises:
    ArgumentError: not a mapping of whole numbers to finite weights.
    DataError: the labels have more dimensions than a class needs.

  Example:
    >>> source = ClassWeightSource(np.array([0, 2, 1]), {2: 5.0})
    >>> source.read(slice(0, 3))
    array([1., 5., 1.], dtype=float32)
  """

  dims = ()
  dtype = np.dtype("float32")

  def __init__(self, labels, class_weight, where="fit: class_weight"):
    self._weights = _check_class_weight(class_weight, where)
    self._labels = as_array(labels, where)
    if self._labels.ndim > 2:
      raise DataError(
          "%s: labels of shape %s given; accepted are (rows,) with class "
          "numbers or (rows, classes). Use sample_weight for targets with "
          "more dimensions." % (where, self._labels.shape))

  @property
  def num_rows(self):
    return self._labels.shape[0]

  def read(self, rows, box=()):
    """Returns float32 weights, one for each row; see `ArraySource.read`."""
    del box  # a weight has no dimension beyond the row
    labels = np.asarray(self._labels[rows])
    if labels.ndim == 2:
      labels = (labels[:, 0] if labels.shape[1] == 1
                else np.argmax(labels, axis=1))
    if labels.dtype.kind == "f":
      labels = np.round(labels)
    weights = np.ones(labels.shape, np.float32)
    for number, weight in self._weights.items():
      weights[labels == number] = weight
    return weights


class ProductSource:
  """The product of several sources of weights, row by row."""

  dims = ()
  dtype = np.dtype("float32")

  def __init__(self, *sources):
    self._sources = sources

  @property
  def num_rows(self):
    return self._sources[0].num_rows

  def read(self, rows, box=()):
    """Returns float32 weights, one for each row; see `ArraySource.read`."""
    product = self._sources[0].read(rows, box)
    for source in self._sources[1:]:
      product = product * source.read(rows, box)
    return product


def row_weights(where, num_rows, sample_weight=None, labels=None,
                class_weight=None):
  """Returns the source of one weight per row.

  Args:
    where: the words that open an error, for example "fit".
    num_rows: rows of the data; the weights are 1 if nothing is given.
    sample_weight: array [rows] or None.
    labels: the targets, for `class_weight`.
    class_weight: {class number: weight} or None; training only. Both given,
      they are multiplied.

  Raises:
    ArgumentError, DataError: see ClassWeightSource and ArraySource.
  """
  parts = []
  if sample_weight is not None:
    parts.append(
        ArraySource(sample_weight, "%s: sample_weight" % where, (), "float32"))
  if class_weight is not None:
    parts.append(
        ClassWeightSource(labels, class_weight, "%s: class_weight" % where))
  if not parts:
    return OnesSource(num_rows)
  return parts[0] if len(parts) == 1 else ProductSource(*parts)


def _check_class_weight(class_weight, where):
  try:
    weights = dict(class_weight)
    fits = all(
        isinstance(number, numbers.Real) and number == int(number)
        and math.isfinite(weight) for number, weight in weights.items())
  except (TypeError, ValueError, OverflowError):
    fits = False
  if not fits:
    raise ArgumentError(
        "%s: %r given; accepted is a mapping of class number to weight, for "
        "example {0: 1.0, 1: 5.0}. Change it." % (where, class_weight))
  return {int(number): float(weight) for number, weight in weights.items()}
