"""The repository's source as syntax trees, for the tests of structure."""

import ast
import functools
import pathlib
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "meshkeras"
FOLDERS = (PACKAGE, "tests", "tools", "examples")


class SourceFile(NamedTuple):
  """One file: its path from the root, its text and its syntax tree."""

  path: str
  text: str
  tree: ast.Module

  @property
  def module(self):
    """Its dotted name: "meshkeras.mesh.mesh", or "meshkeras.mesh"."""
    parts = self.path[:-len(".py")].split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

  @property
  def part(self):
    """Its folder or, at the top, its own name: "mesh", "errors"."""
    return (self.module.split(".") + ["__init__"])[1]

  @property
  def within(self):
    """Its path from the package: "mesh/mesh.py"."""
    return self.path[len(PACKAGE) + 1:]


class Import(NamedTuple):
  """What is imported, as a dotted name, and in which line."""

  name: str
  lineno: int


class Function(NamedTuple):
  """A function: its file, its name behind its class's, and its node.

  `docstrings` is its own and, for a method, its class's.
  """

  file: SourceFile
  name: str
  node: ast.AST
  docstrings: str

  @property
  def key(self):
    """What messages call it: "models/fitting.py: Fitting.fit"."""
    return "%s: %s" % (self.file.within, self.name)

  @property
  def public(self):
    return all(not part.startswith("_") or part in ("__init__", "__call__")
               for part in self.name.split("."))


@functools.lru_cache(maxsize=None)
def files_of(folder):
  """Returns every SourceFile below a folder of the repository."""
  found = []
  for path in sorted((ROOT / folder).rglob("*.py")):
    text = path.read_text("utf-8")
    found.append(SourceFile(path.relative_to(ROOT).as_posix(), text,
                            ast.parse(text, str(path))))
  return tuple(found)


def package_files():
  """Returns every SourceFile of the package."""
  return files_of(PACKAGE)


@functools.lru_cache(maxsize=None)
def modules():
  """Returns {dotted name: SourceFile} of the package."""
  return {file.module: file for file in package_files()}


def imports(file):
  """Returns the Import of every import statement, one per name.

  `from meshkeras.mesh import slices` is meshkeras.mesh.slices, a file;
  `from meshkeras.mesh import Mesh` is meshkeras.mesh, where the name is from.
  """
  found = []
  for node in ast.walk(file.tree):
    if isinstance(node, ast.Import):
      found += [Import(alias.name, node.lineno) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      base = "." * node.level + (node.module or "")
      for alias in node.names:
        name = "%s.%s" % (base, alias.name)
        whole = name in modules() or alias.name == "*"
        found.append(Import(name if whole else base, node.lineno))
  return found


def own_imports(file):
  """Returns the Import of the package's own modules only."""
  return [item for item in imports(file) if item.name in modules()]


def functions(file):
  """Returns every Function of a file, methods and inner ones included."""
  found = []

  def visit(node, names, docstring):
    for child in ast.iter_child_nodes(node):
      if isinstance(child, ast.FunctionDef):
        own = (ast.get_docstring(child) or "") + docstring
        found.append(
            Function(file, ".".join(names + (child.name,)), child, own))
        visit(child, names + (child.name,), own)
      elif isinstance(child, ast.ClassDef):
        visit(child, names + (child.name,),
              ast.get_docstring(child) or "")
      else:
        visit(child, names, docstring)

  visit(file.tree, (), "")
  return found


def at(file, place):
  """Returns "meshkeras/mesh/mesh.py:12" of a node or an Import."""
  return "%s:%d" % (file.path, place.lineno)
