"""Speed, size and memory of checkpoints, beside plain files.

  python tools/bench_checkpoint.py            prints the table
  python tools/bench_checkpoint.py --write    puts it in docs/benchmarks.md

Every process writes its part of the same bytes to a plain file, flushes it,
saves a checkpoint, and reads both back, in turns. Reads are cold (the
system's copies are dropped before) and warm.
"""

import argparse
import json
import os
import statistics
import tempfile

import launch

TURNS = (
    ("save", "save", "plain write, flushed", "write"),
    ("load, cold", "load cold", "plain read, cold", "read cold"),
    ("load, warm", "load warm", "plain read, warm", "read warm"),
    ("load over values, cold", "reload cold", "plain read, cold",
     "read cold"),
    ("load over values, warm", "reload warm", "plain read, warm",
     "read warm"),
    ("plain read that keeps nothing, cold", "drop cold", "plain read, cold",
     "read cold"),
    ("plain read that keeps nothing, warm", "drop warm", "plain read, warm",
     "read warm"))
MARKS = ("<!-- checkpoints: begin -->", "<!-- checkpoints: end -->")


def measure(num_processes, megabytes, rounds, directory):
  """Returns what bench_checkpoint_worker.py found."""
  with tempfile.TemporaryDirectory(dir=directory) as folder:
    output = launch.run(num_processes, "bench_checkpoint_worker.py",
                        [folder, megabytes, rounds], timeout_seconds=1800)
  line = next(line for line in output.splitlines() if "RESULT " in line)
  return json.loads(line.partition("RESULT ")[2])


def rows_of(num_processes, found):
  """Yields the table's rows of one number of processes."""
  for what, name, words, plain in TURNS:
    speeds = [[found["full"] / 1e6 / turn[key] for turn in found["rounds"]]
              for key in (name, plain)]
    ratios = [a / b for a, b in zip(*speeds)]
    yield (num_processes, what, "%.0f" % statistics.median(speeds[0]),
           "%.0f (%s)" % (statistics.median(speeds[1]), words),
           "%.2f" % statistics.median(ratios))


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--write", action="store_true")
  parser.add_argument("--megabytes", type=int, default=1024)
  parser.add_argument("--rounds", type=int, default=5)
  parser.add_argument("--processes", default="1,2")
  parser.add_argument("--directory", default=launch.ROOT,
                      help="on the disk that is measured")
  flags = parser.parse_args()
  rows, notes = [], []
  for num_processes in map(int, flags.processes.split(",")):
    found = measure(num_processes, flags.megabytes, flags.rounds,
                    flags.directory)
    rows += rows_of(num_processes, found)
    growth = [max(after - before for before, after in zip(peaks, peaks[1:]))
              for peaks in found["peaks"]]
    notes.append(
        "%d process%s: %.1f MB of values in %.4f MB more of files; peak "
        "memory grew by %.0f MB at most while saving and loading (a slice of "
        "one variable: %.0f MB)." % (
            num_processes, "es" if num_processes > 1 else "",
            found["full"] / 1e6, (found["stored"] - found["full"]) / 1e6,
            max(growth) / 1e6, found["slice"] / 1e6))
  text = launch.table(
      ("processes", "what", "MB/s", "beside, MB/s", "ratio"), rows)
  text += "\n\n" + "\n".join("- " + note for note in notes)
  print(text)
  if flags.write:
    write_between_marks(os.path.join(launch.ROOT, "docs", "benchmarks.md"),
                        text)


def write_between_marks(path, text):
  """Puts the text between the marks of the section on checkpoints."""
  with open(path, encoding="utf-8") as file:
    head, begin, rest = file.read().partition(MARKS[0])
  _, end, tail = rest.partition(MARKS[1])
  if not end:
    raise RuntimeError("%s: the lines %s and %s are missing" % (
        (path,) + MARKS))
  with open(path, "w", encoding="utf-8") as file:
    file.write("%s%s\n%s\n%s%s" % (head, begin, text, end, tail))


if __name__ == "__main__":
  main()
