"""What can be done with a checkpoint without a model: verify, export, diff.

One process, no Horovod, and one variable's full value in memory at most.
"""

import os
import zipfile

import numpy as np

from meshkeras.errors import ArgumentError, CheckpointError
from meshkeras.mesh.dimension import format_dims
from meshkeras.store import manifest as manifest_lib
from meshkeras.store.box_reader import BoxReader
from meshkeras.store.shard_files import (
  header_problem,
  remove_quietly,
  write_shard,
)
from meshkeras.store.shard_reader import ShardReader

# Number of elements compared at a time.
_COMPARED = 1 << 20


def full_box(variable):
  """Returns the box of a whole VariableEntry."""
  return tuple((0, size) for size in variable.shape)


def verify(path):
  """Returns (variables, bytes) of a checkpoint after checking every byte.

  Raises:
    CheckpointError: naming the file, the variable, what was expected and
      what was found.
  """
  manifest = manifest_lib.read(path)
  problem = header_problem(path, manifest)
  if problem:
    raise CheckpointError(problem)
  with ShardReader(path) as shards:
    BoxReader(shards).verify([
        (variable, full_box(variable))
        for variable in manifest.variables.values()])
  return len(manifest.variables), sum(
      v.num_bytes for v in manifest.variables.values())


def export(path, out, role=None):
  """Writes the full values of a checkpoint to one file, checked.

  Args:
    path: of the checkpoint.
    out: a name that ends in ".safetensors" or ".npz"; in the latter
      bfloat16, which NumPy lacks, becomes float32.
    role: "weight" or "slot" to take only those; None for all.

  Returns: number of variables.
  Raises:
    ArgumentError: another ending.
    CheckpointError: the checkpoint is damaged or `out` cannot be written;
      there is no file `out` then.
  """
  manifest = manifest_lib.read(path)
  variables = [v for v in manifest.variables.values()
               if role in (None, v.role)]
  write = {".safetensors": _write_safetensors, ".npz": _write_npz}.get(
      os.path.splitext(out)[1])
  if write is None:
    raise ArgumentError(
        "export: %r given; accepted are names that end in .safetensors or "
        ".npz. Change it." % out)
  aside = "%s.part-%d" % (out, os.getpid())
  try:
    with ShardReader(path) as shards:
      def value_of(variable):
        # A reader, so memory, of its own for each: the last one may still be
        # written.
        return BoxReader(shards).read_one(variable, full_box(variable))

      write(aside, variables, value_of)
    os.replace(aside, out)
  except OSError as error:
    raise CheckpointError(
        "export: %r cannot be written (%s). Choose another place."
        % (out, error)) from error
  finally:
    remove_quietly(aside)
  return len(variables)


def _write_safetensors(out, variables, value_of):
  write_shard(out, [(v, full_box(v)) for v in variables],
              lambda i: [value_of(variables[i])],
              {"writer": "meshkeras export"})


def _write_npz(out, variables, value_of):
  with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as file:
    for variable in variables:
      value = value_of(variable)
      if variable.dtype == "bfloat16":
        value = value.astype(np.float32)
      with file.open(variable.name + ".npy", "w", force_zip64=True) as entry:
        np.lib.format.write_array(entry, value, allow_pickle=False)


def diff(path, other):
  """Returns lines that say how two checkpoints' variables differ.

  Returns: list of text; empty if names, dims, types and values are equal.
  Raises:
    CheckpointError: one of them is damaged.
  """
  manifests = manifest_lib.read(path), manifest_lib.read(other)
  ours, theirs = (m.variables for m in manifests)
  lines = ["only in %s: %s" % (path, name)
           for name in ours if name not in theirs]
  lines += ["only in %s: %s" % (other, name)
            for name in theirs if name not in ours]
  with ShardReader(path) as a, ShardReader(other) as b:
    readers = BoxReader(a), BoxReader(b)
    for name, one in ours.items():
      two = theirs.get(name)
      if two is not None:
        lines += _compared(name, one, two, readers)
  return lines


def _compared(name, one, two, readers):
  described = ["[%s] %s" % (format_dims(v.dims), v.dtype) for v in (one, two)]
  if described[0] != described[1]:
    return ["%s: %s and %s" % (name, *described)]
  values = []
  for variable, reader in zip((one, two), readers):
    values.append(reader.read_one(variable, full_box(variable)))
  flat = [value.reshape(-1) for value in values]
  count, largest = 0, 0.0
  for begin in range(0, flat[0].size, _COMPARED):
    parts = [f[begin:begin + _COMPARED] for f in flat]
    different = parts[0].view(np.uint8).reshape(len(parts[0]), -1) != (
        parts[1].view(np.uint8).reshape(len(parts[1]), -1))
    count += int(different.any(axis=1).sum())
    if different.any():
      largest = max(largest, _largest_difference(*parts))
  if not count:
    return []
  return ["%s: %d of %d values differ, by at most %g"
          % (name, count, flat[0].size, largest)]


def _largest_difference(one, two):
  kind = np.complex128 if one.dtype.kind == "c" else np.float64
  with np.errstate(invalid="ignore", over="ignore"):
    found = np.abs(one.astype(kind) - two.astype(kind))
  return float(np.nanmax(found, initial=0.0))
