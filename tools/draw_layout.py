"""Draws docs/images/layout.svg: how a layout splits a matrix.

  python tools/draw_layout.py
"""

import os

from launch import ROOT

CELL, GAP = 26, 70
ROWS, COLUMNS = 4, 8
COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1")
CASES = (
    ("no rule", "every process holds all of it", 1, 1),
    ("hidden:model", "columns over axis model", 1, 2),
    ("in:data", "rows over axis data", 2, 1),
    ("in:data,hidden:model", "a block for each process", 2, 2),
)


def rank_label(row_parts, column_parts, row, column):
  """Returns the ranks of a 2 x 2 mesh that hold a cell."""
  data = [row * row_parts // ROWS] if row_parts > 1 else [0, 1]
  model = ([column * column_parts // COLUMNS] if column_parts > 1
           else [0, 1])
  return [2 * d + m for d in data for m in model]


def draw_case(index, case):
  title, note, row_parts, column_parts = case
  left = 20 + index * (COLUMNS * CELL + GAP)
  parts = [
      '<text x="%d" y="28" class="title">%s</text>' % (left, title),
      '<text x="%d" y="48" class="note">%s</text>' % (left, note)]
  for row in range(ROWS):
    for column in range(COLUMNS):
      ranks = rank_label(row_parts, column_parts, row, column)
      fill = COLORS[ranks[0]] if row_parts * column_parts > 1 else "#999999"
      parts.append(
          '<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>'
          % (left + column * CELL, 64 + row * CELL, CELL - 2, CELL - 2, fill))
  for row in range(row_parts):
    for column in range(column_parts):
      ranks = rank_label(row_parts, column_parts, row * ROWS // row_parts,
                         column * COLUMNS // column_parts)
      parts.append(
          '<text x="%d" y="%d" class="rank">%s</text>'
          % (left + (2 * column + 1) * COLUMNS * CELL // (2 * column_parts),
             64 + (2 * row + 1) * ROWS * CELL // (2 * row_parts) + 5,
             ", ".join(str(rank) for rank in ranks)))
  return parts


def main():
  width = 20 + len(CASES) * (COLUMNS * CELL + GAP)
  lines = [
      '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="210" '
      'viewBox="0 0 %d 210">' % (width, width),
      "<style>text{font-family:sans-serif}.title{font-weight:bold;"
      "font-size:16px}.note{font-size:13px;fill:#555}.rank{font-size:16px;"
      "font-weight:bold;fill:#fff;text-anchor:middle}</style>",
      '<rect width="100%" height="100%" fill="#ffffff"/>']
  for index, case in enumerate(CASES):
    lines += draw_case(index, case)
  lines += [
      '<text x="20" y="196" class="note">kernel [in=4, hidden=8] on mesh '
      "data:2,model:2; the numbers are the processes that hold the part"
      "</text>", "</svg>"]
  path = os.path.join(ROOT, "docs", "images", "layout.svg")
  with open(path, "w") as file:
    file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
  main()
