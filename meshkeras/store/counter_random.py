"""Random values as a function of (key, global position).

A counter-based generator: position i of a tensor has the value mix(i * c +
key), with the 64-bit finaliser of Steele, Lea and Flood, "Fast Splittable
Pseudorandom Number Generators", OOPSLA 2014 (splitmix64). No state, so any
part of a tensor can be made by itself and costs what that part costs; every
layout and every number of processes sees the same values. The same formula
is written for NumPy (initial weights) and TensorFlow (dropout).
"""

import hashlib

import numpy as np

from meshkeras.upstream import tf

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_STEP = 0xD1342543DE82EF95
_WORD = (1 << 64) - 1


def make_key(seed, name):
  """Returns the 64-bit key of one random tensor.

  Args:
    seed: the model's seed, an int.
    name: what the values are for, such as "dense/kernel".
  """
  text = ("%d/%s" % (int(seed), name)).encode("utf-8")
  return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


def numpy_bits(key, sizes, box):
  """Returns uint64 [box]: random bits of a part of a tensor.

  Args:
    key: from `make_key`.
    sizes: the full tensor's sizes.
    box: ((begin, end), ...), the part wanted.
  """
  index = np.zeros((1,) * len(sizes), np.uint64)
  for axis, (stride, (begin, end)) in enumerate(zip(_strides(sizes), box)):
    positions = np.arange(begin, end, dtype=np.uint64) * np.uint64(stride)
    index = index + positions.reshape(_along(axis, len(sizes)))
  with np.errstate(over="ignore"):
    return _mix(index, np.uint64(key), np.uint64, np.right_shift,
                np.bitwise_xor)


def numpy_uniform(key, sizes, box, dtype=np.float32):
  """Returns values in [0, 1) [box]: 24 random bits each (float64: 53)."""
  bits = numpy_bits(key, sizes, box)
  if np.dtype(dtype) == np.float64:
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0 ** -53
  return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0 ** -24)


def numpy_normal(key, sizes, box):
  """Returns float64 standard normal values [box], by Box and Muller (1958).

  Two independent uniform values per position. The logarithm and the cosine
  are taken of one flat array padded to a multiple of 64, so that a vector
  unit's remainder loop never gives another last bit than its main loop.
  """
  first = numpy_uniform(key, sizes, box, np.float64)
  second = numpy_uniform(key ^ _GOLDEN, sizes, box, np.float64)
  shape, count = first.shape, first.size
  padded = -(-max(count, 1) // 64) * 64
  radius, angle = np.full(padded, 0.5), np.zeros(padded)
  radius[:count] = 1.0 - first.ravel()
  angle[:count] = second.ravel()
  values = np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle)
  return values[:count].reshape(shape)


def tf_bits(key, step, sizes, box):
  """Returns a uint64 tensor [box]: random bits of a part at one step.

  Args:
    key: from `make_key`.
    step: int64 scalar tensor; another step has other values.
    sizes: the full tensor's sizes.
    box: the part wanted.
  """
  word = _tf_word
  right_shift, xor = tf.bitwise.right_shift, tf.bitwise.bitwise_xor
  step_key = _mix(tf.cast(step, tf.uint64) * word(_STEP), word(key), word,
                  right_shift, xor)
  # The product by the constant is taken of the short position vectors, not
  # of the full index: multiplication distributes modulo 2**64.
  index = tf.reshape(step_key, [1] * len(sizes))
  for axis, (stride, (begin, end)) in enumerate(zip(_strides(sizes), box)):
    positions = np.arange(begin, end, dtype=np.uint64) * np.uint64(stride)
    with np.errstate(over="ignore"):
      positions = positions * np.uint64(_GOLDEN)
    index = index + tf.constant(
        positions.reshape(_along(axis, len(sizes))), tf.uint64)
  return _finish(index, word, right_shift, xor)


def tf_uniform(key, step, sizes, box):
  """Returns a float32 tensor [box] of values in [0, 1) at one step."""
  bits = tf.bitwise.right_shift(tf_bits(key, step, sizes, box), _tf_word(40))
  return tf.cast(bits, tf.float32) * tf.constant(2.0 ** -24, tf.float32)


def numpy_step_uniform(key, step, sizes, box):
  """Returns what `tf_uniform` computes, in NumPy: the reference for tests."""
  with np.errstate(over="ignore"):
    step_key = _mix(np.uint64(step) * np.uint64(_STEP), np.uint64(key),
                    np.uint64, np.right_shift, np.bitwise_xor)
  return numpy_uniform(int(step_key), sizes, box)


def _mix(index, key, word, right_shift, xor):
  return _finish(index * word(_GOLDEN) + key, word, right_shift, xor)


def _finish(z, word, right_shift, xor):
  z = xor(z, right_shift(z, word(30))) * word(_FIRST)
  z = xor(z, right_shift(z, word(27))) * word(_SECOND)
  return xor(z, right_shift(z, word(31)))


def _tf_word(value):
  return tf.constant(np.uint64(value & _WORD), tf.uint64)


def _strides(sizes):
  """Returns the row-major stride of each dimension, in elements."""
  strides, stride = [], 1
  for size in reversed(sizes):
    strides.append(stride & _WORD)
    stride *= size
  return strides[::-1]


def _along(axis, ndims):
  return (1,) * axis + (-1,) + (1,) * (ndims - axis - 1)
