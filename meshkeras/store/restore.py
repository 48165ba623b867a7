"""Restoring a store from a checkpoint of any mesh, layout and job size.

The order: process 0 reads the index and all use its text; names, dims and
types are compared; each process verifies the bytes it needs; the outcome is
agreed; only then variables change, one at a time.
"""

import math
import os
from typing import NamedTuple

import numpy as np

from meshkeras.errors import CheckpointError, MeshKerasError
from meshkeras.mesh import host_collectives, slices
from meshkeras.mesh.dimension import format_dims
from meshkeras.mesh.process_sets import current_job
from meshkeras.store import manifest as manifest_lib
from meshkeras.store.commit import wait_for_saves
from meshkeras.store.manifest import BLOCK_BYTES
from meshkeras.store.shard_files import CHUNK_BYTES, ShardReader

# Gaps up to this many bytes are read through rather than skipped.
GAP_BYTES = 1 << 16
# TensorFlow keeps an array that begins at a multiple of its alignment (16 to
# 64 bytes) as the variable's own memory, and copies any other.
KEPT_BYTES, COPIED_OFFSET = 64, 8


class Differences(NamedTuple):
  """How a checkpoint's variables and a store's differ; lists of text.

  Attributes:
    missing: in the model, not in the checkpoint.
    unexpected: in the checkpoint, not in the model.
    mismatched: in both with other dims or another type.
  """

  missing: list
  unexpected: list
  mismatched: list

  def __bool__(self):
    return bool(self.missing or self.unexpected or self.mismatched)

  def report(self, directory):
    """Returns the one message of all of them."""
    lines = ["%s: its variables are not the model's:" % directory]
    for what, names in zip(
        ("missing in the checkpoint", "not in the model",
         "of another shape or type"), self):
      lines += ["  %s: %s" % (what, name) for name in names]
    lines.append(
        "Build the model that was saved; or strict=False loads what fits "
        "and returns these lists.")
    return "\n".join(lines)


def read_agreed(directory):
  """Returns the Manifest of a checkpoint, the same on every process.

  Process 0 reads the index; each process looks for the shards by itself.

  Called by: every process.

  Raises:
    CheckpointError: it is no complete checkpoint; on every process.
  """
  wait_for_saves()
  directory = os.fspath(directory)
  found = {"text": None, "problem": None}
  if current_job().is_chief:
    try:
      found["text"] = manifest_lib.index_text(directory)
    except MeshKerasError as error:
      found["problem"] = str(error)
  found = host_collectives.from_chief(found)
  if found["problem"]:
    raise CheckpointError(found["problem"])
  manifest = manifest_lib.parse(found["text"], directory)
  host_collectives.agree(
      manifest_lib.file_problem(directory, manifest), CheckpointError)
  return manifest


def differences(store, manifest, roles):
  """Returns the Differences between the variables of some roles.

  Args:
    store: VariableStore.
    manifest: Manifest.
    roles: ("weight",) or ("weight", "slot").
  """
  wanted = {v.name: v for v in store if v.role in roles}
  found = {name: v for name, v in manifest.variables.items()
           if v.role in roles}
  mismatched = []
  for name, stored in wanted.items():
    if name not in found:
      continue
    ours = "[%s] %s" % (format_dims(stored.dims), stored.dtype.name)
    theirs = "[%s] %s" % (format_dims(found[name].dims), found[name].dtype)
    if ours != theirs:
      mismatched.append("%s: %s in the checkpoint, %s in the model"
                        % (name, theirs, ours))
  return Differences([name for name in wanted if name not in found],
                     [name for name in found if name not in wanted],
                     mismatched)


def restore(store, directory, manifest, roles, strict=True):
  """Sets the variables of a store from a checkpoint.

  Args:
    store: VariableStore, of any mesh and layout.
    directory: of the checkpoint.
    manifest: Manifest, from `read_agreed`.
    roles: which variables: ("weight",) or ("weight", "slot").
    strict: whether every variable must fit; else those that do are set.

  When split:
    any dim: no traffic; a process reads what its slices need and verifies
      every block of bytes it uses.
  Called by: every process.

  Returns: Differences, all empty if strict.
  Raises:
    CheckpointError: on every process; no variable has changed.
  """
  directory = os.fspath(directory)
  found = differences(store, manifest, roles)
  if strict and found:
    raise CheckpointError(found.report(directory))
  names = _fitting(store, manifest, roles, found)
  with ShardReader(directory) as shards:
    reader = BoxReader(shards)
    problem = None
    try:
      reader.check(
          (manifest.variables[name], box)
          for name in names for box in store[name].boxes.values())
    except CheckpointError as error:
      problem = str(error)
    host_collectives.agree(problem, CheckpointError)
    try:
      for name in names:
        entry = manifest.variables[name]
        store.write_slices(name, (
            (rank, reader.read(entry, box))
            for rank, box in store[name].boxes.items()))
    except CheckpointError as error:
      problem = ("%s It was damaged while it was loaded: some variables have "
                 "changed. Load a checkpoint again." % error)
    host_collectives.agree(problem, CheckpointError)
  return found


def _fitting(store, manifest, roles, found):
  mismatched = {text.split(": ", 1)[0] for text in found.mismatched}
  return [v.name for v in store
          if v.role in roles and v.name in manifest.variables
          and v.name not in mismatched]


class BoxReader:
  """Reads and verifies boxes of variables.

  Args:
    shards: ShardReader.
  """

  def __init__(self, shards):
    self._shards = shards
    self._buffer = np.empty(0, np.uint8)

  def check(self, wanted):
    """Verifies every block of bytes that boxes of variables need.

    Args:
      wanted: iterable of (VariableEntry, box).

    Raises:
      CheckpointError: a checksum differs, or bytes cannot be read.
    """
    self._shards.check(
        chunk for variable, box in wanted for chunk in _chunks(variable, box))

  def read(self, variable, box):
    """Returns the array of a box of a variable, read but not verified.

    The array is good until the next call, which reuses its memory: memory
    asked for anew costs more time than the reading. It lies where TensorFlow
    copies it.

    Raises:
      CheckpointError: bytes cannot be read.
    """
    dtype = manifest_lib.numpy_dtype(variable.dtype)
    out = self._array(slices.box_shape(box), dtype)
    for part, wanted in _parts(variable, box):
      # Parts that are contiguous here and there are read in place.
      # The ellipsis keeps a scalar an array.
      target = out[slices.relative(wanted, box) + (Ellipsis,)]
      ranges = _byte_ranges(part, wanted, dtype.itemsize)
      if len(ranges) == 1 and wanted == part.box and (
          target.flags.c_contiguous):
        self._shards.read_into(part.file, part.offset,
                               target.reshape(-1).view(np.uint8))
      else:
        self._read_rows(part, wanted, target, dtype)
    return out

  def _array(self, shape, dtype):
    size = math.prod(shape) * dtype.itemsize
    if self._buffer.size < size + 2 * KEPT_BYTES:
      self._buffer = np.empty(0, np.uint8)  # freed before the next is made
      self._buffer = np.empty(size + 2 * KEPT_BYTES, np.uint8)
    begin = -self._buffer.ctypes.data % KEPT_BYTES + COPIED_OFFSET
    return self._buffer[begin:begin + size].view(dtype).reshape(shape)

  def _read_rows(self, part, wanted, target, dtype):
    """Reads a box of a part by whole positions of its first dim."""
    if not part.shape:
      self._shards.read_into(part.file, part.offset,
                             target.reshape(-1).view(np.uint8))
      return
    row_bytes = part.num_bytes // part.shape[0]
    first = wanted[0][0] - part.begin[0]
    count = wanted[0][1] - wanted[0][0]
    inner = tuple(
        slice(begin - origin, end - origin) for (begin, end), origin
        in zip(wanted[1:], part.begin[1:]))
    # Some rows at a time, so that a narrow cut of a wide part stays small.
    at_once = max(1, CHUNK_BYTES // max(1, row_bytes))
    for row in range(0, count, at_once):
      rows = min(at_once, count - row)
      raw = np.empty(rows * row_bytes, np.uint8)
      self._shards.read_into(
          part.file, part.offset + (first + row) * row_bytes, raw)
      values = raw.view(dtype).reshape((rows,) + tuple(part.shape[1:]))
      target[row:row + rows] = values[(slice(None),) + inner]


def _chunks(variable, box):
  """Yields (name, SliceEntry, begin, end) of the blocks that a box needs."""
  for part, wanted in _parts(variable, box):
    done = 0
    for begin, end in _byte_ranges(part, wanted, variable.itemsize):
      first = max(begin // BLOCK_BYTES * BLOCK_BYTES, done)
      done = max(done, min(
          manifest_lib.num_blocks(end) * BLOCK_BYTES, part.num_bytes))
      for at in range(first, done, CHUNK_BYTES):
        yield variable.name, part, at, min(at + CHUNK_BYTES, done)


def _parts(variable, box):
  """Yields (SliceEntry, box wanted of it) of the parts that meet a box."""
  for part in variable.slices:
    wanted = slices.intersect(part.box, box)
    if wanted is not None:
      yield part, wanted


def _byte_ranges(part, wanted, itemsize):
  """Returns the (begin, end) bytes of a part that a box of it needs.

  Ranges with small gaps between them are joined.

  Example:
    >>> from meshkeras.store.manifest import SliceEntry
    >>> part = SliceEntry("", (0, 0), (2, 8), 0, 64, "")
    >>> _byte_ranges(part, ((1, 2), (0, 4)), 4)
    [(32, 48)]
  """
  if not part.shape:
    return [(0, part.num_bytes)]
  strides = [itemsize * math.prod(part.shape[i + 1:])
             for i in range(len(part.shape))]
  # From the first dim on which the box is narrower, counted from the last,
  # bytes are contiguous.
  inner = len(part.shape) - 1
  while inner > 0 and wanted[inner] == part.box[inner]:
    inner -= 1
  begin, end = wanted[inner]
  run = (end - begin) * strides[inner]
  starts = np.zeros(1, np.int64)
  for i in range(inner):
    positions = np.arange(*wanted[i], dtype=np.int64) - part.begin[i]
    starts = (starts[:, None] + positions * strides[i]).reshape(-1)
  starts = starts + (begin - part.begin[inner]) * strides[inner]
  breaks = np.flatnonzero(np.diff(starts) - run > GAP_BYTES)
  firsts = starts[np.concatenate([[0], breaks + 1])]
  lasts = starts[np.concatenate([breaks, [len(starts) - 1]])] + run
  return [(int(a), int(b)) for a, b in zip(firsts, lasts)]
