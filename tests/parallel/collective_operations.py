"""Every operation of a mesh implementation, beside its formula in NumPy.

An operation takes a slice per processor. `lower` computes it with a mesh
implementation, `expected` with NumPy from the slices of all processors. The
formulas know a mesh as a tuple of sizes, the last axis fastest, and use
nothing of the package.
"""

import functools
from typing import NamedTuple

import numpy as np

from meshkeras.upstream import mtf, tf

SLICE = (4, 4)
NUMBERS = ("float16", "bfloat16", "float32", "float64", "int32", "int64",
           "int8", "uint8")
COMPLEX = ("complex64", "complex128")
ALL = NUMBERS + COMPLEX + ("bool",)


class Operation(NamedTuple):
  """lower: function (impl, laid-out x) -> laid-out tensor.

  expected: function (list of slices by rank) -> list of slices by rank.
  dtypes: names of those it is defined for.
  """

  lower: object
  expected: object
  dtypes: tuple = ALL


def slices_of(num_processors, dtype, shape=SLICE):
  """Returns one array per processor; small whole numbers, so sums are exact.

  They are positive, so that unsigned types hold them too.
  """
  random = np.random.RandomState(3)
  values = random.randint(0, 16, (num_processors,) + shape)
  if dtype == "bool":
    return list(values % 3 == 0)
  kind = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
  if kind.kind == "c":
    values = values + 1j * random.randint(0, 16, values.shape)
  return list(values.astype(kind))


def operations(sizes):
  """Returns {name: Operation} for a mesh with axes of these sizes."""
  found = {}
  for make in (_reductions, _moves, _cuts, _receives, _ranges):
    found.update(make(sizes))
  return found


def by_groups(sizes, axes, parts, fn):
  """Applies fn to the slices along `axes`: a list in, a list out."""
  ranks = np.arange(len(parts)).reshape(sizes)
  ends = [len(sizes) - len(axes) + i for i in range(len(axes))]
  ranks = np.moveaxis(ranks, axes, ends)
  length = int(np.prod([sizes[axis] for axis in axes]))
  results = [None] * len(parts)
  for group in ranks.reshape(-1, length):
    for rank, result in zip(group, fn([parts[r] for r in group])):
      results[rank] = result
  return results


def _unions(sizes):
  axes = list(range(len(sizes)))
  return [(axis,) for axis in axes] + ([tuple(axes)] if len(axes) > 1 else [])


def _reduced(parts, reduction):
  dtype = parts[0].dtype
  wide = np.stack(parts)
  if dtype.kind == "V" or dtype.name in ("bfloat16", "float16"):
    wide = wide.astype(np.float32)
  fn = {"SUM": np.sum, "MAX": np.max, "MIN": np.min}[reduction]
  return [fn(wide, axis=0).astype(dtype)] * len(parts)


def _reductions(sizes):
  kinds = {"SUM": NUMBERS + COMPLEX, "MAX": NUMBERS + ("bool",),
           "MIN": NUMBERS + ("bool",)}
  for axes in _unions(sizes):
    for reduction, dtypes in kinds.items():
      yield "allreduce %s over %s" % (reduction, _text(axes)), Operation(
          lambda impl, x, axes=axes, reduction=reduction: impl.allreduce(
              x, list(axes), reduction),
          lambda parts, axes=axes, reduction=reduction: by_groups(
              sizes, axes, parts,
              functools.partial(_reduced, reduction=reduction)), dtypes)


def _moves(sizes):
  for axis in range(len(sizes)):
    for dim in (0, 1):
      yield "allconcat over %d dim %d" % (axis, dim), Operation(
          lambda impl, x, axis=axis, dim=dim: impl.allconcat(x, axis, dim),
          lambda parts, axis=axis, dim=dim: by_groups(
              sizes, (axis,), parts,
              lambda g: [np.concatenate(g, dim)] * len(g)))
    for dim in (0, 1, 2):
      yield "allconcat stacked over %d dim %d" % (axis, dim), Operation(
          lambda impl, x, axis=axis, dim=dim: impl.allconcat(
              x, axis, dim, stack=True),
          lambda parts, axis=axis, dim=dim: by_groups(
              sizes, (axis,), parts, lambda g: [np.stack(g, dim)] * len(g)))
    for split, concat in ((0, 1), (1, 0), (1, 1)):
      yield "alltoall over %d split %d concat %d" % (
          axis, split, concat), Operation(
              lambda impl, x, axis=axis, split=split, concat=concat:
              impl.alltoall(x, axis, split, concat),
              lambda parts, axis=axis, split=split, concat=concat: by_groups(
                  sizes, (axis,), parts,
                  functools.partial(_exchanged, split=split, concat=concat)))


def _exchanged(group, split, concat):
  cut = [np.split(part, len(group), split) for part in group]
  return [np.concatenate([pieces[target] for pieces in cut], concat)
          for target in range(len(group))]


def _cuts(sizes):
  def keep(group, dim, reverse=False):
    order = range(len(group))[::-1] if reverse else range(len(group))
    return [np.split(part, len(group), dim)[which]
            for part, which in zip(group, order)]

  for axis, size in enumerate(sizes):
    for dim in (0, 1):
      yield "allsplit over %d dim %d" % (axis, dim), Operation(
          lambda impl, x, axis=axis, dim=dim: impl.allsplit(x, axis, dim),
          lambda parts, axis=axis, dim=dim: by_groups(
              sizes, (axis,), parts, lambda g: keep(g, dim)))
      yield "reduce-scatter over %d dim %d" % (axis, dim), Operation(
          functools.partial(_split_of_sum, summed=(axis,), axis=axis,
                            dim=dim),
          lambda parts, axis=axis, dim=dim: by_groups(
              sizes, (axis,), parts,
              lambda g: keep(_reduced(g, "SUM"), dim)), NUMBERS + COMPLEX)
    yield "allsplit over %d reversed" % axis, Operation(
        lambda impl, x, axis=axis, size=size: impl.allsplit(
            x, axis, 0, which=impl.slicewise(
                lambda c: tf.constant(size - 1) - c,
                impl.laid_out_pcoord(axis))),
        lambda parts, axis=axis: by_groups(
            sizes, (axis,), parts, lambda g: keep(g, 0, reverse=True)))
  if len(sizes) > 1:
    union = tuple(range(len(sizes)))
    yield "reduce-scatter of a sum over all", Operation(
        functools.partial(_split_of_sum, summed=union, axis=1, dim=0),
        lambda parts: by_groups(
            sizes, (1,), by_groups(sizes, union, parts, functools.partial(
                _reduced, reduction="SUM")), lambda g: keep(g, 0)),
        NUMBERS + COMPLEX)


def _split_of_sum(impl, x, summed, axis, dim):
  lazy = mtf.LazyAllreduceSum(impl, x, list(summed))
  return impl.allsplit(lazy, axis, dim).to_laid_out_tensor()


def _receives(sizes):
  for axis, n in enumerate(sizes):
    sources = {
        "from the one before": [(c - 1) % n for c in range(n)],
        "from the first": [0] * n,
        "of its own": list(range(n)),
        "of nothing": [None] * n,
        "by the last only": [None] * (n - 1) + [0],
        "from the last by the first": [n - 1] + list(range(1, n)),
    }
    for name, source in sources.items():
      yield "receive over %d %s" % (axis, name), Operation(
          lambda impl, x, axis=axis, source=source: impl.receive(
              x, axis, source),
          lambda parts, axis=axis, source=source: by_groups(
              sizes, (axis,), parts, lambda g: [
                  np.zeros_like(g[0]) if s is None else g[s]
                  for s in source]))
    for offset in (1, -1, n, n + 1):
      for wrap in (True, False):
        source = [(c - offset) % n if wrap else c - offset for c in range(n)]
        source = [s if 0 <= s < n else None for s in source]
        yield "shift over %d by %d%s" % (
            axis, offset, " wrapped" if wrap else ""), Operation(
                lambda impl, x, axis=axis, offset=offset, wrap=wrap:
                impl.shift_by_n_processors(x, axis, offset, wrap),
                lambda parts, axis=axis, source=source: by_groups(
                    sizes, (axis,), parts, lambda g: [
                        np.zeros_like(g[0]) if s is None else g[s]
                        for s in source]))


def _ranges(sizes):
  block = SLICE[0]
  for axis, n in enumerate(sizes):
    size = n * block
    wanted = {
        "a halo": [(c * block - 1, (c + 1) * block + 1) for c in range(n)],
        "a halo below": [(c * block - 2, (c + 1) * block) for c in range(n)],
        "wider than a block": [
            (c * block - 7, (c + 1) * block + 6) for c in range(n)],
        "everything and more": [(-3, size + 3)] * n,
        "inside its block": [
            (c * block + 1, c * block + 3) for c in range(n)],
        "the first block": [(0, block)] * n,
        "the next block": [
            ((c + 1) * block, (c + 2) * block) for c in range(n)],
        "nothing but fill": [(size, size + 2)] * n,
    }
    for name, ranges in wanted.items():
      for dim in (0, 1) if name in ("a halo", "everything and more") else (0,):
        yield "fetch over %d dim %d, %s" % (axis, dim, name), Operation(
            lambda impl, x, axis=axis, dim=dim, ranges=ranges:
            impl.fetch_ranges(x, axis, dim, ranges, fill=1),
            lambda parts, axis=axis, dim=dim, ranges=ranges: by_groups(
                sizes, (axis,), parts,
                functools.partial(_fetched, dim=dim, ranges=ranges)))
        yield "return over %d dim %d, %s" % (axis, dim, name), Operation(
            functools.partial(_return, axis=axis, dim=dim, ranges=ranges,
                              size=size),
            functools.partial(_returned_everywhere, sizes, axis, dim, ranges,
                              size), ("float32", "float64", "bfloat16",
                                      "complex64", "int32"))
  yield "fetch of a dim that is not split", Operation(
      lambda impl, x: impl.fetch_ranges(x, None, 1, [(-1, 6)], fill=0),
      lambda parts: [np.pad(part, [(0, 0), (1, 2)]) for part in parts])
  yield "return of a dim that is not split", Operation(
      lambda impl, x: impl.return_ranges(x, None, 1, [(-1, 3)], 3),
      lambda parts: [part[:, 1:] for part in parts], NUMBERS)


def _fetched(group, dim, ranges):
  whole = np.moveaxis(np.concatenate(group, dim), dim, 0)
  results = []
  for begin, end in ranges:
    rows = [whole[i] if 0 <= i < len(whole) else np.ones_like(whole[0])
            for i in range(begin, end)]
    results.append(np.moveaxis(np.stack(rows), 0, dim))
  return results


def _tiled(part, dim, length, xp):
  """Returns a part `length` long, so that it covers a range."""
  pieces = [part] * -(-length // SLICE[dim])
  whole = xp.concat(pieces, dim) if xp is tf else np.concatenate(pieces, dim)
  return whole[(slice(None),) * dim + (slice(0, length),)]


def _return(impl, x, axis, dim, ranges, size):
  length = ranges[0][1] - ranges[0][0]
  longer = impl.slicewise(lambda t: _tiled(t, dim, length, tf), x)
  return impl.return_ranges(longer, axis, dim, ranges, size)


def _returned_everywhere(sizes, axis, dim, ranges, size, parts):
  length = ranges[0][1] - ranges[0][0]

  def add(group):
    dtype = group[0].dtype
    shape = list(group[0].shape)
    total = np.zeros([size] + shape[:dim] + shape[dim + 1:],
                     np.complex128 if dtype.kind == "c" else np.float64)
    for part, (begin, _) in zip(group, ranges):
      rows = np.moveaxis(_tiled(part, dim, length, np), dim, 0)
      for offset, row in enumerate(rows):
        if 0 <= begin + offset < size:
          total[begin + offset] += row.astype(total.dtype)
    blocks = np.split(total, len(group))
    return [np.moveaxis(block, 0, dim).astype(dtype) for block in blocks]

  return by_groups(sizes, (axis,), parts, add)


def _text(axes):
  return "+".join(str(axis) for axis in axes)
