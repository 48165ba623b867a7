"""The public names: their list, and an entry in docs/reference.md for each."""

import re
import types

import meshkeras
from meshkeras import losses, metrics, optimizers
from meshkeras.layers import activations, initializers
from tests.single import source
from tests.single.goldens import check_golden

REFERENCE = source.ROOT / "docs" / "reference.md"


def folders():
  """Returns {dotted name: module}: the package, and its public modules."""
  found = {"meshkeras": meshkeras}
  for name in meshkeras.__all__:
    if isinstance(getattr(meshkeras, name), types.ModuleType):
      found["meshkeras." + name] = getattr(meshkeras, name)
  return found


def names_of(module):
  """Returns `__all__`, or the classes of a module that has none."""
  if hasattr(module, "__all__"):
    return list(module.__all__)
  return sorted(
      name for name, value in vars(module).items()
      if isinstance(value, type) and value.__module__ == module.__name__)


def public_names():
  """Returns every public name, dotted and sorted."""
  return sorted(
      "%s.%s" % (folder, name) for folder, module in folders().items()
      for name in names_of(module))


def test_public_names_are_those_of_the_golden_file():
  check_golden("public_names.txt", public_names(),
               "tests/single/test_public_names.py")


def test_every_folder_lists_its_names_once_and_has_them():
  for folder, module in folders().items():
    names = names_of(module)
    assert len(set(names)) == len(names), folder
    for name in names:
      assert hasattr(module, name), "%s.%s" % (folder, name)


def test_every_public_name_has_a_docstring():
  for dotted in public_names():
    folder, name = dotted.rsplit(".", 1)
    value = getattr(folders()[folder], name)
    if not isinstance(value, str):
      assert value.__doc__, dotted


def test_every_public_name_is_in_the_reference():
  written, folder = [], None
  for line in REFERENCE.read_text("utf-8").splitlines():
    heading = re.match(r"## `(meshkeras[\w.]*)`", line)
    entry = re.match(r"- `(\w+)[`(]", line)
    if line.startswith("## "):
      folder = heading and heading.group(1)
    elif entry and folder:
      written.append("%s.%s" % (folder, entry.group(1)))
  public = public_names()
  missing = [name for name in public if name not in written]
  assert not missing, "docs/reference.md has no line for %s" % missing
  stale = [name for name in written if name not in public]
  assert not stale, "docs/reference.md has lines for what is not: %s" % stale
  assert len(set(written)) == len(written), "docs/reference.md: twice"


def test_every_word_that_stands_for_an_object_is_in_the_reference():
  text = REFERENCE.read_text("utf-8").split("## Words")[1]
  for start, module in (
      ("activation=", activations), ("kernel_initializer=", initializers),
      ("loss=", losses), ("metrics=", metrics), ("optimizer=", optimizers)):
    entry = text.split("- `" + start)[1].split("\n- ")[0]
    words = set(re.findall(r"`(\w+)`", entry)) - {"accuracy", "acc"}
    assert words == {word for word in module._KNOWN if word == word.lower()}
