"""A checkpoint shard: one file in the safetensors format, streamed.

8 bytes, little endian: the length of the header; the header, JSON text; the
tensors' bytes one after the other. Nothing of a file is held in memory but
the tensor being written.
"""

import json
import math
import os
import struct

import numpy as np

from meshkeras.errors import CheckpointError
from meshkeras.store import stages
from meshkeras.store.behind_writer import BehindWriter
from meshkeras.store.checksums import BlockChecksums
from meshkeras.store.manifest import SliceEntry, numpy_dtype

WRITER = "meshkeras"
# Bytes handed to the system at a time.
CHUNK_BYTES = 1 << 22
# A header that claims more is no header.
_LONGEST_HEADER = 1 << 28

_TYPES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16",
    "int16": "I16", "uint32": "U32", "int32": "I32", "uint64": "U64",
    "int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32",
    "float64": "F64", "complex64": "F32", "complex128": "F64"}


def tensor_key(name, begin, shape, full_shape):
  """Returns what a part of a variable is called inside its shard.

  Example:
    >>> tensor_key("dense/kernel", (0, 4), (8, 4), (8, 8))
    'dense/kernel[0:8,4:8]'
    >>> tensor_key("dense/bias", (0,), (8,), (8,))
    'dense/bias'
  """
  if tuple(shape) == tuple(full_shape):
    return name
  return "%s[%s]" % (name, ",".join(
      "%d:%d" % (b, b + n) for b, n in zip(begin, shape)))


def header_of(tensors, metadata):
  """Returns the header of a shard, as JSON-able values.

  Complex tensors are real ones with a last dim of 2.

  Args:
    tensors: list of (key, type's name, shape), in the order of bytes.
    metadata: {text: text}.
  """
  header, position = {"__metadata__": metadata}, 0
  for key, dtype, shape in tensors:
    begin = position
    position += math.prod(shape) * numpy_dtype(dtype).itemsize
    parts = [2] if dtype.startswith("complex") else []
    header[key] = {"dtype": _TYPES[dtype], "shape": list(shape) + parts,
                   "data_offsets": [begin, position]}
  return header


def header_bytes(header):
  """Returns what a file begins with."""
  text = json.dumps(header, separators=(",", ":")).encode("utf-8")
  # The tensors begin at a multiple of 8, as every common reader likes.
  text += b" " * (-len(text) % 8)
  return struct.pack("<Q", len(text)) + text


def check_type(name, dtype):
  """Raises CheckpointError for a type that the format lacks."""
  if dtype not in _TYPES:
    raise CheckpointError(
        "Variable %r: type %s cannot be saved; accepted are %s. Use one of "
        "them." % (name, dtype, ", ".join(_TYPES)))


def write_shard(path, pieces, read, metadata):
  """Writes a shard, flushed to disk, and returns its slices' entries.

  Args:
    path: of the new file; there must be none.
    pieces: list of (VariableEntry, box), in the order to be written.
    read: function position in `pieces` -> iterable of arrays that make up
      the box, in the order of rows; they must stay as they are.
    metadata: {text: text} for the header.

  Called by: owners only.

  Returns: ([SliceEntry], bytes of the file).
  Raises:
    OSError: the system refuses; what was written is removed.
  """
  # The larger items first, so that each tensor is aligned to its items.
  order = sorted(range(len(pieces)),
                 key=lambda i: -pieces[i][0].itemsize)
  tensors = []
  for i in order:
    variable, box = pieces[i]
    begin, shape = _begin_and_shape(box)
    tensors.append((tensor_key(variable.name, begin, shape, variable.shape),
                    variable.dtype, shape))
  header = header_of(tensors, metadata)
  head = header_bytes(header)
  offsets = [len(head) + header[key]["data_offsets"][0]
             for key, _, _ in tensors]
  entries = [None] * len(pieces)
  stages.reach("before_write")
  descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
  writer = BehindWriter(descriptor)
  try:
    try:
      writer.write(head)
      writer.finish()
      stages.reach("within_write")
      for i, offset in zip(order, offsets):
        begin, shape = _begin_and_shape(pieces[i][1])
        num_bytes, checksums = _write_checked(writer, read(i))
        entries[i] = SliceEntry(os.path.basename(path), begin, shape, offset,
                                num_bytes, checksums)
      writer.finish()
      stages.reach("after_write")
      stages.reach("before_flush")
      writer.flush()
      stages.reach("after_flush")
      size = os.fstat(descriptor).st_size
    finally:
      writer.close()
      os.close(descriptor)
  except BaseException:
    remove_quietly(path)
    raise
  return entries, size


def _begin_and_shape(box):
  return (tuple(int(begin) for begin, _ in box),
          tuple(int(end - begin) for begin, end in box))


def raw_bytes(array):
  """Returns an array's bytes in row order, without a copy if it can be."""
  return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _write_checked(writer, arrays):
  """Writes arrays; returns (bytes, the checksums of their blocks)."""
  checksums, num_bytes = BlockChecksums(), 0
  for array in arrays:
    data = raw_bytes(array)
    num_bytes += data.size
    for begin in range(0, data.size, CHUNK_BYTES):
      chunk = data[begin:begin + CHUNK_BYTES]
      writer.write(chunk)
      checksums.add(chunk)
  return num_bytes, checksums.text()


def remove_quietly(path):
  """Removes a file of ours, if it is there and can be removed."""
  try:
    os.unlink(path)
  except OSError:
    pass


def header_problem(directory, manifest, names=None):
  """Returns None, or in which shard's header the index is contradicted.

  Args:
    directory: of the checkpoint.
    manifest: Manifest.
    names: of the shards to look at; None for all.
  """
  tensors = {name: [] for name in (manifest.files if names is None else names)}
  for variable in manifest.variables.values():
    for part in variable.slices:
      if part.file in tensors:
        key = tensor_key(
            variable.name, part.begin, part.shape, variable.shape)
        # A tensor without values comes before the one at the same place.
        tensors[part.file].append(
            (part.offset, part.num_bytes, key, variable.dtype, part.shape))
  metadata = {"writer": WRITER, "save": manifest.header.get("save")}
  for name, found in tensors.items():
    path = os.path.join(directory, name)
    problem = _difference(
        header_of([rest for _, _, *rest in sorted(found)], metadata),
        read_header(path))
    if problem:
      return ("%s: %s. The shard is damaged, or of another save: copy it "
              "again, or use another checkpoint." % (path, problem))
  return None


def _difference(wanted, found):
  """Returns None, or how a header differs from the one that is wanted."""
  if not isinstance(found, dict):
    return "a safetensors header expected, none found"
  for key in list(wanted) + list(found):
    if wanted.get(key) != found.get(key):
      return "its header has %r: %s, where %s is expected" % (
          key, found.get(key), wanted.get(key))
  return None


def read_header(path):
  """Returns the JSON header of a safetensors file, or None if it has none."""
  try:
    with open(path, "rb") as file:
      length = struct.unpack("<Q", file.read(8))[0]
      if length > min(_LONGEST_HEADER, os.fstat(file.fileno()).st_size):
        return None
      return json.loads(file.read(length).decode("utf-8"))
  except (OSError, ValueError, struct.error):
    return None
