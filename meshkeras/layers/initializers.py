"""Initial values of weights, the same at every layout.

An initializer is called as `initializer(key, sizes, box, dtype)` and returns
the part `box` of a tensor with the full sizes `sizes`. Each value depends on
the key and its global position alone.
"""

import math

import numpy as np

from meshkeras.layers.arguments import choice, positive
from meshkeras.layers.configured import Configured, look_up
from meshkeras.mesh import slices
from meshkeras.store import counter_random

# A chunk's temporaries are some 8 times its float32 values, so this bounds
# them at 16 MB however large the slice is.
_CHUNK_SIZE = 1 << 19

# Inverse of the normal distribution for probabilities p within two standard
# deviations: with s = p - 1/2 and t = s * s it is s * P(t) / Q(t), lowest
# power first, fitted by least squares to statistics.NormalDist().inv_cdf;
# largest error 3e-9. Only +, * and / are used, which round alike on every
# processor, so that slices are bit-equal whoever computes them.
_NUMERATOR = (
    2.506628278371, -30.83713810169, 140.0600044435, -281.6079455575,
    227.9399432386, -41.6977336515)
_DENOMINATOR = (
    1.0, -13.3494351482, 67.55240242601, -158.5927309981, 166.1035183253,
    -56.72712954656)
_BELOW_TWO_DEVIATIONS = 0.02275013194817921
_TRUNCATED_DEVIATION = 0.8796256610342398


class Initializer(Configured):
  """Base: fills a slice chunk by chunk from `values`.

  A subclass defines `values(key, sizes, box)`.
  """

  def __init__(self, **options):
    self.take_options(options)

  def __call__(self, key, sizes, box, dtype=np.float32):
    """Returns the NumPy array [box] of the full tensor [sizes]."""
    sizes = tuple(sizes)
    result = np.empty(slices.box_shape(box), dtype)
    for chunk in slices.chunks(box, _CHUNK_SIZE):
      result[slices.relative(chunk, box)] = self.values(key, sizes, chunk)
    return result

  def values(self, key, sizes, box):
    """Returns the values of one chunk, an array [box] or a number."""
    raise NotImplementedError(type(self).__name__)


class RandomInitializer(Initializer):
  """Base of those that draw values.

  Args:
    seed: None to depend on the model's seed and the weight's name; a number
      to have the same values wherever this initializer is used.
  """

  def __init__(self, seed=None, **options):
    super().__init__(**options)
    self.seed = seed

  def __call__(self, key, sizes, box, dtype=np.float32):
    if self.seed is not None:
      key = counter_random.make_key(self.seed, "initializer")
    return super().__call__(key, sizes, box, dtype)


class Zeros(Initializer):
  """All 0."""

  def values(self, key, sizes, box):
    return 0


class Ones(Initializer):
  """All 1."""

  def values(self, key, sizes, box):
    return 1


class Constant(Initializer):
  """All `value`."""

  def __init__(self, value=0.0, **options):
    super().__init__(**options)
    self.value = value

  def values(self, key, sizes, box):
    return self.value


class RandomUniform(RandomInitializer):
  """Even between `minval` and `maxval`.

  Args:
    minval: lowest value.
    maxval: upper bound.
    seed: see RandomInitializer.
  """

  def __init__(self, minval=-0.05, maxval=0.05, seed=None, **options):
    super().__init__(seed=seed, **options)
    self.minval = float(minval)
    self.maxval = float(maxval)

  def values(self, key, sizes, box):
    return _uniform(key, sizes, box, self.minval, self.maxval)


class RandomNormal(RandomInitializer):
  """Normal with a mean and a standard deviation.

  Args:
    mean: the mean.
    stddev: the standard deviation.
    seed: see RandomInitializer.
  """

  def __init__(self, mean=0.0, stddev=0.05, seed=None, **options):
    super().__init__(seed=seed, **options)
    self.mean = float(mean)
    self.stddev = float(stddev)

  def values(self, key, sizes, box):
    return counter_random.numpy_normal(
        key, sizes, box) * self.stddev + self.mean


class TruncatedNormal(RandomNormal):
  """Normal, with nothing beyond two standard deviations of `stddev`."""

  def values(self, key, sizes, box):
    return _truncated_normal(key, sizes, box) * self.stddev + self.mean


class VarianceScaling(RandomInitializer):
  """Values whose variance is `scale` / fan.

  Args:
    scale: above 0.
    mode: "fan_in", "fan_out" or "fan_avg": inputs of a unit, outputs, or the
      mean of both, counted over the full tensor whatever its layout.
    distribution: "truncated_normal", "untruncated_normal" or "uniform".
    seed: see RandomInitializer.

  Example:
    >>> import numpy as np
    >>> init = VarianceScaling(1.0, "fan_avg", "uniform")
    >>> whole = init(7, (4, 6), ((0, 4), (0, 6)))
    >>> lower_half = init(7, (4, 6), ((2, 4), (0, 6)))
    >>> bool(np.all(whole[2:] == lower_half))
    True
  """

  def __init__(self, scale=1.0, mode="fan_in",
               distribution="truncated_normal", seed=None, **options):
    super().__init__(seed=seed, **options)
    where = type(self).__name__
    self.scale = positive(where, "scale", scale)
    self.mode = choice(where, "mode", mode, ("fan_in", "fan_out", "fan_avg"))
    self.distribution = choice(
        where, "distribution", distribution,
        ("truncated_normal", "untruncated_normal", "uniform"))

  def values(self, key, sizes, box):
    fan_in, fan_out = fans(sizes)
    fan = {"fan_in": fan_in, "fan_out": fan_out,
           "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
    variance = self.scale / max(1.0, fan)
    if self.distribution == "uniform":
      limit = math.sqrt(3.0 * variance)
      return _uniform(key, sizes, box, -limit, limit)
    if self.distribution == "untruncated_normal":
      return counter_random.numpy_normal(
          key, sizes, box) * math.sqrt(variance)
    return _truncated_normal(key, sizes, box) * (
        math.sqrt(variance) / _TRUNCATED_DEVIATION)


class _Scaled(VarianceScaling):
  """A named case of VarianceScaling; its only argument is `seed`."""

  CASE = ()

  def __init__(self, seed=None):
    super().__init__(*self.CASE, seed=seed)


class GlorotUniform(_Scaled):
  """Uniform, variance 2 / (fan_in + fan_out): Glorot and Bengio (2010)."""

  CASE = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Scaled):
  """Truncated normal, variance 2 / (fan_in + fan_out)."""

  CASE = (1.0, "fan_avg", "truncated_normal")


class HeUniform(_Scaled):
  """Uniform, variance 2 / fan_in: He and others (2015), for relu."""

  CASE = (2.0, "fan_in", "uniform")


class HeNormal(_Scaled):
  """Truncated normal, variance 2 / fan_in."""

  CASE = (2.0, "fan_in", "truncated_normal")


class LecunUniform(_Scaled):
  """Uniform, variance 1 / fan_in."""

  CASE = (1.0, "fan_in", "uniform")


class LecunNormal(_Scaled):
  """Truncated normal, variance 1 / fan_in: for selu."""

  CASE = (1.0, "fan_in", "truncated_normal")


_KNOWN = {
    "zeros": Zeros, "ones": Ones, "constant": Constant,
    "random_uniform": RandomUniform, "uniform": RandomUniform,
    "random_normal": RandomNormal, "normal": RandomNormal,
    "truncated_normal": TruncatedNormal,
    "variance_scaling": VarianceScaling,
    "glorot_uniform": GlorotUniform, "glorot_normal": GlorotNormal,
    "he_uniform": HeUniform, "he_normal": HeNormal,
    "lecun_uniform": LecunUniform, "lecun_normal": LecunNormal,
}
_KNOWN.update({cls.__name__: cls for cls in _KNOWN.values()})


def get(identifier):
  """Returns an initializer by name, config or as it is.

  Args:
    identifier: "glorot_uniform" and so on; {"class_name", "config"}; or any
      callable (key, sizes, box, dtype) -> NumPy array [box].

  Raises:
    ArgumentError: the name is not known.

  Example:
    >>> get("he_normal").get_config()
    {'seed': None}
  """
  return look_up("initializer", identifier, _KNOWN)


def fans(sizes):
  """Returns (inputs of a unit, outputs of a unit) of a weight's sizes.

  The last two dimensions are inputs and outputs; those before them are a
  window's, such as a convolution's.
  """
  if len(sizes) < 2:
    fan = sizes[0] if sizes else 1
    return fan, fan
  window = math.prod(sizes[:-2])
  return sizes[-2] * window, sizes[-1] * window


def _uniform(key, sizes, box, minval, maxval):
  unit = counter_random.numpy_uniform(key, sizes, box)
  return unit * np.float32(maxval - minval) + np.float32(minval)


def _truncated_normal(key, sizes, box):
  """Returns float64 values [box]: standard normal within -2 and 2."""
  unit = counter_random.numpy_uniform(key, sizes, box, np.float64)
  s = (unit - 0.5) * (1.0 - 2.0 * _BELOW_TWO_DEVIATIONS)
  t = s * s
  return s * _polynomial(_NUMERATOR, t) / _polynomial(_DENOMINATOR, t)


def _polynomial(coefficients, t):
  value = np.full_like(t, coefficients[-1])
  for coefficient in reversed(coefficients[:-1]):
    value *= t
    value += coefficient
  return value
