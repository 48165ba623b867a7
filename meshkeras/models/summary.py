"""The text of `model.summary()`, made of plain data."""

import math
import re
from typing import NamedTuple, Tuple

from meshkeras.mesh.dimension import format_dims
from meshkeras.mesh.slices import slice_axes, slice_shape

UNITS = ("B", "KB", "MB", "GB", "TB")


class LayerRow(NamedTuple):
  """One layer: its name, its class, and ((name, size), ...) of its output."""

  name: str
  kind: str
  output_dims: Tuple


class VariableRow(NamedTuple):
  """One variable: ((name, size), ...), bytes of an element, and its role.

  `role` is "weight", or another word for what the optimizer keeps.
  """

  name: str
  dims: Tuple
  item_bytes: int
  trainable: bool = True
  role: str = "weight"


class TrafficRow(NamedTuple):
  """One kind of collective, per training step and process."""

  kind: str
  count: int
  num_bytes: int


def summary_text(title, mesh, layout, layers, variables, traffic=None,
                 width=100):
  """Returns the tables of a model: layers, weights, totals, traffic.

  Args:
    title: the first line, for example "Sequential 'sequential'".
    mesh: Mesh.
    layout: Layout.
    layers: sequence of LayerRow, in order.
    variables: sequence of VariableRow, weights and slots.
    traffic: sequence of TrafficRow, or None if it is not known.
    width: columns of the text.

  Example:
    >>> from meshkeras.mesh import Layout, Mesh
    >>> kernel = VariableRow("dense/kernel", (("in", 4), ("out", 8)), 4)
    >>> text = summary_text("Model", Mesh("model:2"), Layout("out:model"),
    ...                     [], [kernel], width=79)
    >>> print(text.splitlines()[4])
    dense/kernel  in=4, out=8  out:model  (4, 8)  (4, 4)        64 B  yes
  """
  weights = [row for row in variables if row.role == "weight"]
  lines = ["%s on mesh %s with layout %s"
           % (title, str(mesh) or "of one processor", str(layout) or "none")]
  if layers:
    lines += [""] + _table(
        ("layer", "kind", "output dims"), "<<<",
        [(row.name, row.kind, format_dims(row.output_dims))
         for row in layers], width)
  lines += [""] + _table(
      ("weight", "dims", "layout", "shape", "slice", "bytes here", "train"),
      "<<<<<><",
      [_weight_cells(row, mesh, layout) for row in weights], width)
  lines += [""] + _totals(variables, weights, mesh, layout)
  if traffic is not None:
    lines += [""] + _traffic(traffic, width)
  return "\n".join(lines)


def format_bytes(num_bytes):
  """Returns a number of bytes in three digits and a unit.

  Example:
    >>> format_bytes(512), format_bytes(2048), format_bytes(400 * 2 ** 20)
    ('512 B', '2.00 KB', '400 MB')
  """
  amount, power = float(num_bytes), 0
  while amount >= (1024 if power == 0 else 999.5) and power < len(UNITS) - 1:
    amount /= 1024
    power += 1
  digits = 0 if power == 0 or amount >= 99.95 else 1 if amount >= 9.995 else 2
  return "%.*f %s" % (digits, amount, UNITS[power])


def _weight_cells(row, mesh, layout):
  rules = [
      "%s:%s" % (name, layout.axis_of(name)) for name, _ in row.dims
      if layout.axis_of(name) in mesh.axis_names]
  return (row.name, format_dims(row.dims) or "(scalar)",
          ", ".join(rules) or "replicated",
          _format_shape(size for _, size in row.dims),
          _format_shape(slice_shape(row.dims, layout, mesh)),
          format_bytes(_bytes_here(row, mesh, layout)),
          "yes" if row.trainable else "no")


def _totals(variables, weights, mesh, layout):
  num_values = sum(_num_values(row) for row in weights)
  num_trainable = sum(_num_values(row) for row in weights if row.trainable)
  num_split = sum(_num_values(row) for row in weights
                  if slice_axes(row.dims, layout, mesh))
  slots = [row for row in variables if row.role != "weight"]
  entries = [
      ("parameters", "{:,} ({:,} trainable, {:,} not)".format(
          num_values, num_trainable, num_values - num_trainable)),
      ("split over processes", "%.1f%% of the parameters"
       % (100.0 * num_split / num_values if num_values else 0.0)),
      ("weights", _bytes_entry(weights, mesh, layout)),
      ("optimizer slots", _bytes_entry(slots, mesh, layout))]
  return ["%-22s%s" % entry for entry in entries]


def _bytes_entry(rows, mesh, layout):
  here = sum(_bytes_here(row, mesh, layout) for row in rows)
  whole = sum(_num_values(row) * row.item_bytes for row in rows)
  return "%s per process, %s in one process" % (
      format_bytes(here), format_bytes(whole))


def _traffic(traffic, width):
  if not traffic:
    return ["traffic per training step: none"]
  total = TrafficRow("total", sum(row.count for row in traffic),
                     sum(row.num_bytes for row in traffic))
  lines = _table(
      ("traffic per training step", "collectives", "bytes per process"),
      "<>>",
      [(row.kind, "%d" % row.count, format_bytes(row.num_bytes))
       for row in tuple(traffic) + (total,)], width)
  return lines


def _num_values(row):
  return math.prod(size for _, size in row.dims)


def _bytes_here(row, mesh, layout):
  return math.prod(slice_shape(row.dims, layout, mesh)) * row.item_bytes


def _format_shape(sizes):
  return "(%s)" % ", ".join(str(size) for size in sizes)


def _table(header, alignments, rows, width):
  """Returns the lines of a table whose long cells are wrapped.

  Args:
    header: one word per column.
    alignments: one of "<" and ">" per column.
    rows: sequences of texts.
    width: columns of the text, at least some 10 per column.
  """
  widths = [max(map(len, column)) for column in zip(header, *rows)]
  room = width - 2 * (len(widths) - 1)
  while sum(widths) > room and max(widths) > 8:
    widths[widths.index(max(widths))] -= 1
  lines = _wrapped_row(header, alignments, widths)
  lines.append("-" * (sum(widths) + 2 * (len(widths) - 1)))
  for row in rows:
    lines += _wrapped_row(row, alignments, widths)
  return lines


def _wrapped_row(cells, alignments, widths):
  columns = [_wrap(cell, size) for cell, size in zip(cells, widths)]
  lines = []
  for number in range(max(map(len, columns))):
    texts = [column[number] if number < len(column) else ""
             for column in columns]
    lines.append("  ".join(
        "{:{}{}}".format(text, alignment, size)
        for text, alignment, size in zip(texts, alignments, widths)).rstrip())
  return lines


def _wrap(text, width):
  """Returns `text` in lines: broken at a space, else '/', else '_'."""
  lines = [""]
  for word in re.findall(r"[^ ]+ ?", text):
    if lines[-1] and len(lines[-1]) + len(word.rstrip()) > width:
      lines.append("")
    for separator in "/_":
      if len(word.rstrip()) > width:
        word = word.replace(separator, separator + "\0")
    for piece in word.split("\0"):
      if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
        lines.append("")
      lines[-1] += piece
      while len(lines[-1].rstrip()) > width:
        lines[-1:] = [lines[-1][:width], lines[-1][width:]]
  return [line.rstrip() for line in lines if line]
