"""The same training on 1, 2 and 4 processes and several layouts, compared.

  python tools/equality.py            prints the table
  python tools/equality.py --write    puts it in docs/equality.md too

Ends with code 1 if a difference is above the bound.
"""

import argparse
import json
import os
import sys
import tempfile

import launch
import numpy as np

BOUND = 1e-4
# (what is split, model, mesh, layout) by number of processes.
CASES = {
    1: [("nothing", "image", "", ""),
        ("nothing", "token", "", "")],
    2: [("nothing", "image", "data:2", ""),
        ("batch", "image", "data:2", "batch:data"),
        ("hidden", "image", "model:2", "hidden:model"),
        ("classes", "image", "model:2", "classes:model"),
        ("rows of the image", "image", "tall:2", "rows:tall"),
        ("batch", "token", "data:2", "batch:data"),
        ("vocabulary", "token", "model:2", "vocabulary:model")],
    4: [("nothing", "image", "data:4", ""),
        ("batch", "image", "data:4", "batch:data"),
        ("hidden", "image", "model:4", "hidden:model"),
        ("classes", "image", "model:4", "classes:model"),
        ("batch and hidden", "image", "data:2,model:2",
         "batch:data,hidden:model"),
        ("rows of the image", "image", "tall:4", "rows:tall"),
        ("rows and columns", "image", "tall:2,wide:2",
         "rows:tall,cols:wide"),
        ("batch and vocabulary", "token", "data:2,model:2",
         "batch:data,vocabulary:model"),
        ("vocabulary", "token", "model:4", "vocabulary:model")],
}


def case_name(num_processes, number):
  return "np%d-case%d" % (num_processes, number)


def train_all(num_processes, directory):
  """Trains all cases of one number of processes in one launch."""
  cases = [
      dict(name=case_name(num_processes, number), model=model, mesh=mesh,
           layout=layout)
      for number, (_, model, mesh, layout) in enumerate(
          CASES[num_processes])]
  path = os.path.join(directory, "cases-%d.json" % num_processes)
  with open(path, "w", encoding="utf-8") as file:
    json.dump(cases, file)
  launch.run(num_processes, "equality_worker.py", [path, directory])


def read_result(num_processes, number, directory):
  """Returns (numbers, final weights) of one case."""
  path = os.path.join(directory, case_name(num_processes, number))
  with open(path + ".json", encoding="utf-8") as file:
    numbers = json.load(file)
  with np.load(path + ".npz") as file:
    weights = [file[name] for name in file.files]
  return numbers, weights


def history_difference(history, reference):
  """Returns the largest |a - b| / |b| over all values of two Histories."""
  if sorted(history) != sorted(reference):
    return float("inf")
  return max(
      float(np.max(np.abs(np.subtract(history[name], values))
                   / np.maximum(np.abs(values), 1e-12)))
      for name, values in reference.items())


def weights_difference(weights, reference):
  """Returns the largest |a - b| of a weight over its largest |b|."""
  return max(
      float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-12))
      for a, b in zip(weights, reference))


def compare(directory):
  """Returns (rows of the table, largest difference)."""
  references = {
      case[1]: read_result(1, number, directory)
      for number, case in enumerate(CASES[1])}
  rows, largest = [], 0.0
  for num_processes, cases in CASES.items():
    for number, (split, model, mesh, layout) in enumerate(cases):
      numbers, weights = read_result(num_processes, number, directory)
      reference, reference_weights = references[model]
      history = history_difference(numbers["history"], reference["history"])
      weight = weights_difference(weights, reference_weights)
      same_start = numbers["initial"] == reference["initial"]
      largest = max(largest, history, weight,
                    0.0 if same_start else float("inf"))
      rows.append((
          num_processes, model, split, mesh or "-", layout or "-",
          "%.6f" % numbers["loss"], "%.1e" % history, "%.1e" % weight,
          "bit-equal" if same_start else "DIFFERENT",
          numbers["collectives"]))
  return rows, largest


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--write", action="store_true")
  options = parser.parse_args()
  with tempfile.TemporaryDirectory() as directory:
    for num_processes in CASES:
      train_all(num_processes, directory)
    rows, largest = compare(directory)
  text = launch.table(
      ("processes", "model", "split", "mesh", "layout",
       "loss after 20 steps", "History differs by", "weights differ by",
       "initial weights", "collectives per step"), rows)
  print(text)
  print("\nlargest difference: %.1e (bound %.0e)" % (largest, BOUND))
  if options.write:
    launch.write_between_marks(
        os.path.join(launch.ROOT, "docs", "equality.md"), text)
  return 0 if largest <= BOUND else 1


if __name__ == "__main__":
  sys.exit(main())
