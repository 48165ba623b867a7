"""The rules of structure: floors, imports, names, sizes, docstrings.

A rule's exceptions stand beside it, each with its reason; one that is no
longer needed fails, so that the lists only shrink.
"""

import ast
import re

from tests.single import source

# A file imports only from floors below its own.
FLOORS = {
    "errors": 0, "upstream": 0, "version": 0, "installed": 0,
    "mesh": 1,
    "store": 2,
    "ops": 3,
    "layers": 4,
    "losses": 5, "metrics": 5, "optimizers": 5, "data": 5,
    "saving": 6,
    "models": 7,
    "callbacks": 8, "cli": 8,
    "__init__": 9, "__main__": 9,
}
SAME_FLOOR = {
    "upstream -> errors": "raises UpstreamError",
    "upstream -> installed": "its messages say what is installed",
    "installed -> version": "compares what is installed with it",
}
UPSTREAM = ("tensorflow", "mesh_tensorflow", "horovod", "keras", "tf_keras")
UPSTREAM_IMPORTS = {
    "upstream.py": "the only file that may, by name because of the shims"}
CHOSEN_IMPORTS = {
    "store/checksums.py": "a library that not every machine has a build of"}
HOROVOD_CALLERS = {
    "upstream.py", "mesh/process_sets.py", "mesh/collectives.py",
    "mesh/host_collectives.py"}
# Files that must not reach TensorFlow, whatever they import.
PURE = ("mesh/dimension.py", "mesh/mesh.py", "mesh/layout.py",
        "mesh/slices.py", "store/ranges.py", "data/")

# Layers and their like know dims by name, never where the dims are.
MESHLESS = ("layers", "losses", "metrics", "optimizers")
MESH_WORDS = re.compile(
    r"(^|_)(axis|axes|ranks?|layouts?|process_sets?|coordinates|shards?|hvd)"
    r"(_|$)")
KERAS_AXIS = "Keras's argument axis, a position among the dims"
MESH_NAMES = {
    "layers/initializers.py: meshkeras.mesh.slices":
        "an initial value is a function of a box, wherever it is held",
    "layers/batch_normalization.py": KERAS_AXIS,
    "layers/layer_normalization.py": KERAS_AXIS,
    "layers/normalizing.py": KERAS_AXIS,
}

MOST_LINES = 400
MOST_LINES_OF_AN_EXAMPLE = 120
MOST_LINES_OF_A_FUNCTION = 60
MOST_ARGUMENTS = 7
KERAS_SIGNATURE = "Keras's own signature"
LONG_SIGNATURES = {
    "models/fitting.py: Fitting.fit": KERAS_SIGNATURE,
    "models/fitting.py: Fitting.evaluate": KERAS_SIGNATURE,
    "callbacks/early_stopping.py: EarlyStopping.__init__": KERAS_SIGNATURE,
    "callbacks/model_checkpoint.py: ModelCheckpoint.__init__":
        KERAS_SIGNATURE,
    "callbacks/reduce_lr_on_plateau.py: ReduceLROnPlateau.__init__":
        KERAS_SIGNATURE,
}

# A class is abstract or final, except those that users derive from.
FOR_USERS = "users derive from it"
ABSTRACT = "abstract"
BASES = {
    "Adam": "AdamW is Adam after a decay",
    "Callback": FOR_USERS,
    "Configured": ABSTRACT,
    "Crossentropy": ABSTRACT,
    "Fitting": ABSTRACT,
    "Initializer": FOR_USERS,
    "Layer": FOR_USERS,
    "Loss": FOR_USERS,
    "Mean": FOR_USERS,
    "MeshImplBase": ABSTRACT,
    "MeshKerasError": ABSTRACT,
    "Metric": FOR_USERS,
    "Model": FOR_USERS,
    "Optimizer": FOR_USERS,
    "Pooling2D": ABSTRACT,
    "RandomInitializer": FOR_USERS,
    "RandomNormal": "TruncatedNormal differs in its draw alone",
    "Saving": ABSTRACT,
    "VarianceScaling": "its named cases are classes, as in Keras",
    "_Scaled": ABSTRACT,
}


def check(rule, found, exemptions=()):
  """Fails for what breaks a rule, and for exemptions nothing needs.

  Args:
    rule: words that open the failure.
    found: {key: text that says where and what}, or a list of such texts.
    exemptions: {key: reason}.
  """
  if isinstance(found, list):
    found = dict(zip(found, found))
  broken = [text for key, text in found.items() if key not in exemptions]
  assert not broken, "%s:\n  %s" % (rule, "\n  ".join(broken))
  stale = sorted(set(exemptions) - set(found))
  assert not stale, "%s: exemptions that nothing needs: %s" % (rule, stale)


def nodes(*kinds):
  """Yields (SourceFile, node) of these kinds in the whole package."""
  for file in source.package_files():
    for node in ast.walk(file.tree):
      if isinstance(node, kinds):
        yield file, node


def name_of(node):
  """Returns the last part of a name, attribute or argument, or None."""
  for attribute in ("id", "attr", "arg", "name"):
    if isinstance(getattr(node, attribute, None), str):
      return getattr(node, attribute)
  return None


def test_every_part_of_the_package_has_a_floor():
  check("give it a floor in FLOORS", [
      file.path for file in source.package_files()
      if file.part not in FLOORS])


def test_files_import_from_lower_floors_only():
  found = {}
  for file in source.package_files():
    for item in source.own_imports(file):
      part = source.modules()[item.name].part
      if part != file.part and FLOORS[part] >= FLOORS[file.part]:
        found["%s -> %s" % (file.part, part)] = "%s: %s" % (
            source.at(file, item), item.name)
  check("imports of a higher floor, or within one", found, SAME_FLOOR)


def test_no_file_imports_itself_through_others():
  graph = {
      file.module: {item.name for item in source.own_imports(file)}
      for file in source.package_files()}
  done, path = set(), []

  def visit(module):
    assert module not in path, "a circle of imports: %s" % " -> ".join(
        path[path.index(module):] + [module])
    if module not in done:
      path.append(module)
      for other in sorted(graph[module]):
        visit(other)
      done.add(path.pop())

  for module in sorted(graph):
    visit(module)


def test_imports_stand_at_the_top_and_name_what_they_take():
  found = {}
  for file in source.package_files():
    top = {statement.lineno for statement in file.tree.body}
    for item in source.imports(file):
      where = "%s: %s" % (source.at(file, item), item.name)
      if item.lineno not in top:
        found[file.within] = where + " inside a function or an if"
      if item.name.startswith(".") or item.name.endswith("*"):
        found[where] = where + ", relative or a star"
  check("imports", found, CHOSEN_IMPORTS)


def test_upstream_is_imported_by_one_file_only():
  found = {}
  for file in source.package_files():
    for item in source.imports(file):
      if item.name.split(".")[0] in UPSTREAM:
        found[file.within] = "%s: %s" % (source.at(file, item), item.name)
  for file, node in nodes(ast.Call):
    if name_of(node.func) in ("import_module", "__import__"):
      found[file.within] = "%s: import by name" % source.at(file, node)
  check("imports of upstream packages", found, UPSTREAM_IMPORTS)


def test_private_names_of_upstream_are_not_used():
  check("private upstream names", [
      "%s: %s" % (source.at(file, node), ast.unparse(node))
      for file, node in nodes(ast.Attribute)
      if name_of(node.value) in ("tf", "tf2", "mtf", "hvd")
      and re.match(r"_(?!_)|python$", node.attr)])


def test_horovod_is_called_by_the_collectives_only():
  assert HOROVOD_CALLERS == {
      file.within for file, node in nodes(ast.Call)
      if name_of(node.func) == "horovod"}


def test_pure_files_do_not_reach_tensorflow():
  pure = [file for file in source.package_files()
          if file.within.startswith(PURE)]
  assert len(pure) > len(PURE)
  for start in pure:
    reached, waiting = set(), [start.module]
    while waiting:
      module = waiting.pop()
      if module not in reached:
        reached.add(module)
        waiting += [item.name for item
                    in source.own_imports(source.modules()[module])]
    assert "meshkeras.upstream" not in reached, start.within


def test_layers_and_their_like_name_no_part_of_a_mesh():
  found = {}
  for file in source.package_files():
    if file.part in MESHLESS:
      for item in source.own_imports(file):
        if item.name.startswith("meshkeras.mesh") and (
            item.name != "meshkeras.mesh.dimension"):
          found["%s: %s" % (file.within, item.name)] = "%s: %s" % (
              source.at(file, item), item.name)
  for file, node in nodes(ast.Name, ast.Attribute, ast.arg, ast.FunctionDef,
                          ast.ClassDef, ast.keyword):
    named = name_of(node)
    # numpy's own argument, of arrays that are no tensors of the mesh.
    numpy_argument = isinstance(node, ast.keyword) and named == "axis"
    if file.part in MESHLESS and named and not numpy_argument and (
        MESH_WORDS.search(named)):
      found[file.within] = "%s: %s" % (source.at(file, node), named)
  check("a layer, loss, metric or optimizer names a part of a mesh", found,
        MESH_NAMES)


def test_files_are_short():
  found = []
  for folder in source.FOLDERS:
    most = MOST_LINES_OF_AN_EXAMPLE if folder == "examples" else MOST_LINES
    for file in source.files_of(folder):
      num_lines = len(file.text.splitlines())
      if num_lines > most:
        found.append("%s: %d, at most %d" % (file.path, num_lines, most))
  check("lines of a file", found)


def test_functions_are_short():
  found = []
  for file in source.package_files():
    for function in source.functions(file):
      num_lines = function.node.end_lineno - function.node.lineno + 1
      if num_lines > MOST_LINES_OF_A_FUNCTION:
        found.append("%s: %d" % (function.key, num_lines))
  check("lines of a function, at most %d" % MOST_LINES_OF_A_FUNCTION, found)


def test_signatures_are_short():
  found = {}
  for file in source.package_files():
    for function in source.functions(file):
      arguments = function.node.args
      names = [a.arg for a in arguments.posonlyargs + arguments.args
               + arguments.kwonlyargs if a.arg not in ("self", "cls")]
      if len(names) > MOST_ARGUMENTS:
        found[function.key] = "%s: %d" % (function.key, len(names))
  check("arguments of a function, at most %d" % MOST_ARGUMENTS, found,
        LONG_SIGNATURES)


def test_nothing_asserts_or_prints():
  found = ["%s: assert; raise a MeshKerasError" % source.at(file, node)
           for file, node in nodes(ast.Assert)]
  found += ["%s: print" % source.at(file, node)
            for file, node in nodes(ast.Call)
            if file.part != "cli" and isinstance(node.func, ast.Name)
            and node.func.id == "print"]
  check("asserts and prints", found)


def test_classes_are_abstract_or_final():
  classes = list(nodes(ast.ClassDef))
  defined = {node.name for _, node in classes}
  check("a class is derived from", {
      name_of(base): "%s: %s derives from %s" % (
          source.at(file, node), node.name, name_of(base))
      for file, node in classes for base in node.bases
      if name_of(base) in defined}, BASES)


def test_every_todo_has_the_number_of_an_issue():
  bare = re.compile(r"#.*\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
  check("write it as TODO(#12)", [
      "%s:%d" % (file.path, number)
      for folder in source.FOLDERS for file in source.files_of(folder)
      for number, line in enumerate(file.text.splitlines(), 1)
      if bare.search(line) and "re.compile" not in line])


def test_a_folder_says_what_it_is_and_where_to_begin():
  found = []
  for file in source.package_files():
    if not file.path.endswith("__init__.py"):
      continue
    text = ast.get_docstring(file.tree) or ""
    if len(re.findall(r"[.:!?](?=\s|$)", text)) < 3:
      found.append("%s: what it is, what it may use, which file to read "
                   "first" % file.path)
    folder = (source.ROOT / file.path).parent
    named = re.findall(r"`([\w/]+\.py)`", text)
    found += ["%s: no file %s" % (file.path, name) for name in named
              if not (folder / name).exists()]
    if not named:
      found.append("%s: names no file to read first" % file.path)
  check("docstrings of three sentences", found)


def test_what_a_function_raises_is_in_its_docstring():
  found = []
  for file in source.package_files():
    for function in source.functions(file):
      if not function.public:
        continue
      raised = {
          name_of(node.exc.func) for node in ast.walk(function.node)
          if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)}
      raised = {name for name in raised if name and name.endswith("Error")}
      raised -= {"NotImplementedError", "InternalError"}
      found += ["%s: %s" % (function.key, name) for name in sorted(raised)
                if name not in function.docstrings]
  check("an error that no docstring tells of", found)
