"""What a checkpoint holds: its index, read, checked and written as text.

docs/checkpoint_format.md specifies the file for other readers.
"""

import json
import math
import os
import re
import zlib
from typing import NamedTuple

import numpy as np

from meshkeras.errors import CheckpointError
from meshkeras.mesh import slices
from meshkeras.upstream import tf

INDEX_NAME = "meshkeras.json"
FORMAT = "meshkeras checkpoint"
VERSION = 1
# Bytes that share one checksum.
BLOCK_BYTES = 1 << 18

_NOT_ONE = (
    "%s: %s, so this is no complete checkpoint. Give the directory that a "
    "save made; meshkeras.latest_checkpoint(directory) finds the newest "
    "complete one in a directory of several.")
_OTHER_TEXT = (
    "%s: its lines before the last have the checksum %s, %s expected. The "
    "index is damaged or was changed: copy it again, or use another "
    "checkpoint. If the change is yours, remove the line \"index_crc32\".")
_NEWER = (
    "%s: format version %s found; this meshkeras reads versions up to %d. "
    "Load it with the meshkeras that wrote it, or a newer one.")


class SliceEntry(NamedTuple):
  """One stored part of a variable: where its bytes are."""

  file: str
  begin: tuple
  shape: tuple
  offset: int
  num_bytes: int
  checksums: str

  @property
  def box(self):
    return tuple((b, b + n) for b, n in zip(self.begin, self.shape))


class VariableEntry(NamedTuple):
  """One variable: its description, and the parts that make it up."""

  name: str
  dims: tuple
  dtype: str
  trainable: bool
  role: str
  slices: tuple

  @property
  def shape(self):
    return tuple(size for _, size in self.dims)

  @property
  def itemsize(self):
    return numpy_dtype(self.dtype).itemsize

  @property
  def num_bytes(self):
    return math.prod(self.shape) * self.itemsize


class Manifest(NamedTuple):
  """A checkpoint's index.

  Attributes:
    header: dict of what is no variable: "mesh", "layout", "save", "state",
      "model" and the like.
    files: {shard's name: its bytes}.
    variables: {name: VariableEntry} in the order they were made.
  """

  header: dict
  files: dict
  variables: dict

  def to_text(self):
    """Returns the index file's text, one variable's part per line."""
    header = {"format": FORMAT, "version": VERSION,
              "block_bytes": BLOCK_BYTES, **self.header}
    entries = ["%s: %s" % (json.dumps(key), _plain(value))
               for key, value in header.items()]
    entries.append('"files": {\n%s\n }' % ",\n".join(
        "  %s: %d" % (json.dumps(name), size)
        for name, size in sorted(self.files.items())))
    entries.append('"variables": [\n%s\n ]' % ",\n".join(
        _variable_text(v) for v in self.variables.values()))
    head = "{\n %s,\n" % ",\n ".join(entries)
    return '%s "index_crc32": "%s"\n}\n' % (head, _text_checksum(head))


def _text_checksum(text):
  return "%08x" % zlib.crc32(text.encode("utf-8"))


def numpy_dtype(name):
  """Returns the NumPy type of a stored type's name, such as "bfloat16"."""
  return np.dtype(tf.as_dtype(name).as_numpy_dtype)


def _plain(value):
  return json.dumps(encode_floats(value), allow_nan=False)


def _variable_text(variable):
  fields = [("name", variable.name),
            ("dims", [list(dim) for dim in variable.dims]),
            ("dtype", variable.dtype), ("trainable", variable.trainable),
            ("role", variable.role)]
  head = ", ".join("%s: %s" % (json.dumps(k), json.dumps(v))
                   for k, v in fields)
  parts = ",\n".join("   " + json.dumps({
      "file": part.file, "begin": part.begin, "shape": part.shape,
      "offset": part.offset, "bytes": part.num_bytes,
      "crc32": part.checksums}) for part in variable.slices)
  return '  {%s, "slices": [\n%s]}' % (head, parts)


def encode_floats(value):
  """Returns JSON-able `value` with numbers that JSON lacks as objects."""
  if isinstance(value, float) and not math.isfinite(value):
    return {"float": str(value)}
  if isinstance(value, dict):
    return {str(k): encode_floats(v) for k, v in value.items()}
  if isinstance(value, (list, tuple)):
    return [encode_floats(v) for v in value]
  return value


def decode_floats(value):
  """Returns what `encode_floats` was given.

  Example:
    >>> decode_floats(encode_floats({"best": [1.0, float("inf")]}))
    {'best': [1.0, inf]}
  """
  if isinstance(value, dict):
    if list(value) == ["float"] and isinstance(value["float"], str):
      return float(value["float"])
    return {k: decode_floats(v) for k, v in value.items()}
  if isinstance(value, list):
    return [decode_floats(v) for v in value]
  return value


def index_text(directory):
  """Returns the text of a checkpoint's index.

  Raises:
    CheckpointError: there is no such directory, or no index in it.
  """
  path = os.path.join(directory, INDEX_NAME)
  try:
    with open(path, encoding="utf-8") as file:
      return file.read()
  except (FileNotFoundError, NotADirectoryError):
    what = "there is no %s in it" % INDEX_NAME
    if not os.path.isdir(directory):
      what = "it is %s" % (
          "a file" if os.path.exists(directory) else "not there")
    raise CheckpointError(_NOT_ONE % (directory, what)) from None
  except (OSError, UnicodeDecodeError) as error:
    raise CheckpointError(
        _NOT_ONE % (path, "it cannot be read (%s)" % error)) from error


def parse(text, where):
  """Returns the Manifest of an index's text.

  Args:
    text: of the index file.
    where: the directory, for messages.

  Raises:
    CheckpointError: it is none, is damaged, or of a newer version.
  """
  path = os.path.join(where, INDEX_NAME)
  try:
    content = json.loads(text)
  except ValueError as error:
    raise CheckpointError(_NOT_ONE % (
        path, "it is no JSON text (%s)" % error)) from None
  if not isinstance(content, dict) or content.get("format") != FORMAT:
    raise CheckpointError(_NOT_ONE % (
        path, 'it lacks "format": "%s"' % FORMAT))
  if not isinstance(content.get("version"), int) or (
      content["version"] > VERSION):
    raise CheckpointError(_NEWER % (path, content.get("version"), VERSION))
  _check_text(text, content.pop("index_crc32", None), path)
  try:
    files = {str(k): int(v) for k, v in content.pop("files").items()}
    variables = [_variable(v) for v in content.pop("variables")]
    for variable in variables:
      _check_variable(variable, files, path)
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    raise CheckpointError(_NOT_ONE % (
        path, "its description of files or variables is damaged (%s: %s)"
        % (type(error).__name__, error))) from None
  return Manifest(decode_floats(content), files,
                  {v.name: v for v in variables})


def _check_text(text, wanted, path):
  """Raises unless the lines before the checksum's have that checksum."""
  if wanted is None:  # of the first checkpoints
    return
  found = _text_checksum(text[:text.rfind('\n "index_crc32"') + 1])
  if found != wanted:
    raise CheckpointError(_OTHER_TEXT % (path, found, wanted))


def _variable(fields):
  parts = tuple(
      SliceEntry(str(p["file"]), tuple(map(int, p["begin"])),
                 tuple(map(int, p["shape"])), int(p["offset"]),
                 int(p["bytes"]), str(p["crc32"]))
      for p in fields["slices"])
  numpy_dtype(str(fields["dtype"]))
  return VariableEntry(
      str(fields["name"]),
      tuple((str(name), int(size)) for name, size in fields["dims"]),
      str(fields["dtype"]), bool(fields["trainable"]), str(fields["role"]),
      parts)


def _check_variable(variable, files, path):
  """Raises unless the parts lie in the files and make up the variable."""
  def refuse(problem):
    raise CheckpointError(
        "%s: variable %r: %s. The index is damaged: use another checkpoint."
        % (path, variable.name, problem))

  full = tuple((0, size) for size in variable.shape)
  count = 0
  for part in variable.slices:
    if part.file not in files or not re.match(r"[^/\\]+\Z", part.file):
      refuse("a part is in file %r, which is not listed" % part.file)
    if len(part.begin) != len(full) or len(part.shape) != len(full) or (
        slices.intersect(part.box, full) != part.box):
      refuse("a part begins at %s with shape %s, outside of shape %s"
             % (part.begin, part.shape, variable.shape))
    size = math.prod(part.shape)
    if part.num_bytes != size * variable.itemsize:
      refuse("a part of shape %s has %d bytes, %d expected" % (
          part.shape, part.num_bytes, size * variable.itemsize))
    if part.offset < 0 or part.offset + part.num_bytes > files[part.file]:
      refuse("a part ends at byte %d of file %r, which has %d" % (
          part.offset + part.num_bytes, part.file, files[part.file]))
    if len(part.checksums) != 8 * num_blocks(part.num_bytes):
      refuse("a part has %d characters of checksums, %d expected" % (
          len(part.checksums), 8 * num_blocks(part.num_bytes)))
    count += size
  if count != math.prod(variable.shape):
    refuse("its parts have %d elements, %d expected" % (
        count, math.prod(variable.shape)))


def num_blocks(num_bytes):
  """Returns how many checksums so many bytes have."""
  return -(-num_bytes // BLOCK_BYTES)


def file_problem(directory, manifest, names=None):
  """Returns None, or what is wrong with the shards' presence and sizes.

  Args:
    directory: of the checkpoint.
    manifest: Manifest.
    names: of the shards to look at; None for all.
  """
  for name in manifest.files if names is None else names:
    expected = manifest.files[name]
    path = os.path.join(directory, name)
    try:
      found = os.stat(path).st_size
    except OSError as error:
      return ("%s: %d bytes expected, none found (%s). The checkpoint is "
              "incomplete: copy it again, or use another one."
              % (path, expected, error.strerror))
    if found != expected:
      return ("%s: %d bytes expected, %d found. The shard is damaged: copy "
              "it again, or use another checkpoint."
              % (path, expected, found))
  return None


def read(directory):
  """Returns the Manifest of a complete checkpoint.

  Raises:
    CheckpointError: it is none, or a shard is missing or cut short.
  """
  manifest = parse(index_text(directory), directory)
  problem = file_problem(directory, manifest)
  if problem:
    raise CheckpointError(problem)
  return manifest
