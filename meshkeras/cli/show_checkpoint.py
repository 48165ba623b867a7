"""The table of what a checkpoint holds."""

from meshkeras.mesh import Layout
from meshkeras.mesh.dimension import format_dims
from meshkeras.store import manifest as manifest_lib


def table(path, with_files=False):
  """Returns a checkpoint's description as text.

  Args:
    path: of the checkpoint.
    with_files: whether to add a line per part of a variable.

  Raises:
    CheckpointError: it is no complete checkpoint.
  """
  manifest = manifest_lib.read(path)
  header = manifest.header
  layout = Layout(header["layout"])
  rows = [("variable", "role", "dims", "type", "layout", "bytes", "files")]
  for variable in manifest.variables.values():
    split = ["%s:%s" % (dim, layout.axis_of(dim))
             for dim, _ in variable.dims if layout.axis_of(dim)]
    role = variable.role
    if role == "weight":
      role = "trainable" if variable.trainable else "fixed"
    rows.append((
        variable.name, role, format_dims(variable.dims), variable.dtype,
        ",".join(split) or "-", "%d" % variable.num_bytes,
        _numbers({part.file for part in variable.slices}, manifest.files)))
    if with_files:
      rows += [("  %s at byte %d" % (part.file, part.offset), "",
                _box(part), "", "", "%d" % part.num_bytes, "")
               for part in variable.slices]
  return "\n".join(_head(path, manifest) + _aligned(rows))


def _head(path, manifest):
  header = manifest.header
  place = "none" if header.get("epoch") is None else (
      "epoch %d, step %d in it" % (header["epoch"], header["step_in_epoch"]))
  lines = [
      "%s: %s, written by %s" % (
          path, header.get("contents"), header.get("writer")),
      "format version %d; step %s; place in the training: %s; seed %s" % (
          header["version"], header.get("step"), place, header.get("seed")),
      "mesh %r, layout %r" % (header["mesh"], header["layout"])]
  total = sum(v.num_bytes for v in manifest.variables.values())
  stored = sum(manifest.files.values())
  lines.append("%d variables of %d bytes in %d files of %d bytes:" % (
      len(manifest.variables), total, len(manifest.files), stored))
  lines += ["  %d: %s, %d bytes" % (number, name, size)
            for number, (name, size) in enumerate(
                sorted(manifest.files.items()))]
  return lines + [""]


def _numbers(names, files):
  order = {name: number for number, name in enumerate(sorted(files))}
  return ",".join("%d" % number for number in sorted(
      order[name] for name in names))


def _box(part):
  return "[%s]" % ", ".join(
      "%d:%d" % edges for edges in part.box)


def _aligned(rows):
  widths = [max(len(cell) for cell in column) for column in zip(*rows)]
  return ["  ".join(
      cell.rjust(width) if i == 5 else cell.ljust(width)
      for i, (cell, width) in enumerate(zip(row, widths))).rstrip()
          for row in rows]
