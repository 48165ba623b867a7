"""Text files of what must not change by accident."""

import difflib
import os

from tests.single import source

FOLDER = source.ROOT / "tests" / "goldens"
VARIABLE = "UPDATE_GOLDENS"


def check_golden(name, lines, test):
  """Compares lines with a golden file, or writes it when asked to.

  Args:
    name: the file's name in tests/goldens.
    lines: list of texts.
    test: path of the calling test, for the failure.
  """
  path = FOLDER / name
  text = "".join(line + "\n" for line in lines)
  if os.environ.get(VARIABLE):
    path.write_text(text, "utf-8")
  golden = path.read_text("utf-8") if path.exists() else ""
  difference = "\n".join(difflib.unified_diff(
      golden.splitlines(), text.splitlines(), "tests/goldens/" + name, "now",
      lineterm="", n=1))
  assert text == golden, (
      "%s\n\nIf users shall see this change, update the file and say so in "
      "the commit:\n  %s=1 python -m pytest %s" % (
          difference, VARIABLE, test))
