"""Rules that map tensor dimensions to mesh axes."""

from meshkeras.errors import LayoutError, near_names
from meshkeras.mesh.dimension import NAME_PATTERN, format_dims


class Layout:
  """A set of rules "dimension name -> mesh axis name".

  A dimension that no rule names is replicated. Several dimensions may share
  an axis as long as no tensor has two of them.

  Args:
    rules: "batch:data,hidden:model", or a mapping, or a sequence of pairs,
      or another Layout.

  Raises:
    LayoutError: the text cannot be read, or a dimension has two axes.

  Example:
    >>> layout = Layout("batch:data,hidden:model")
    >>> layout.axis_of("hidden"), layout.axis_of("classes")
    ('model', None)
  """

  def __init__(self, rules=""):
    if isinstance(rules, Layout):
      rules = rules.rules
    self._rules = dict(_parse_rules(rules))

  @property
  def rules(self):
    """((dimension name, axis name), ...) in the order given."""
    return tuple(self._rules.items())

  def axis_of(self, dim_name):
    """Returns the axis that splits `dim_name`, or None."""
    return self._rules.get(dim_name)

  def axes_of(self, dims):
    """Returns one axis name or None per (name, size) of `dims`."""
    return tuple(self._rules.get(name) for name, _ in dims)

  def without(self, dim_names):
    """Returns this layout less the rules of `dim_names`."""
    return Layout([rule for rule in self.rules if rule[0] not in dim_names])

  def __str__(self):
    return ",".join("%s:%s" % rule for rule in self.rules)

  def __repr__(self):
    return "Layout(%r)" % str(self)

  def __eq__(self, other):
    return isinstance(other, Layout) and set(self.rules) == set(other.rules)

  def __hash__(self):
    return hash(frozenset(self.rules))


def check_layout(layout, mesh, tensors, padded_dims=()):
  """Checks a layout against a mesh and all the tensors of a model at once.

  Args:
    layout: Layout.
    mesh: Mesh.
    tensors: sequence of (where, dims): words that say which tensor, such as
      "Dense 'dense': kernel", and its ((name, size), ...).
    padded_dims: names whose size is padded up, so need not be divisible
      (the batch).

  Raises:
    LayoutError: a rule names an absent axis or matches no dimension; a
      split dimension's size is not divisible by its axis; a tensor has two
      dimensions on one axis. All of them are in one report.
  """
  problems = _rule_problems(layout, mesh, tensors)
  seen = set()
  for where, dims in tensors:
    for problem in _tensor_problems(layout, mesh, where, dims, padded_dims):
      if problem not in seen:
        seen.add(problem)
        problems.append(problem)
  if problems:
    raise LayoutError(
        "layout %r on mesh %r has %d problem%s:\n%s"
        % (str(layout), str(mesh), len(problems),
           "s" if len(problems) > 1 else "",
           "\n".join("  %d. %s" % (number, problem)
                     for number, problem in enumerate(problems, 1))))


def _rule_problems(layout, mesh, tensors):
  names = {name for _, dims in tensors for name, _ in dims}
  problems = []
  for dim_name, axis in layout.rules:
    rule = "rule %s:%s" % (dim_name, axis)
    if axis not in mesh.axis_names:
      problems.append(
          "%s: the mesh has no axis %r; %s Name an axis of the mesh, or add "
          "it to the mesh." % (rule, axis, near_names(axis, mesh.axis_names)))
    if dim_name not in names:
      problems.append(
          "%s: no tensor of the model has a dimension %r; %s Correct the "
          "name, or remove the rule."
          % (rule, dim_name, near_names(dim_name, names)))
  return problems


def _tensor_problems(layout, mesh, where, dims, padded_dims):
  by_axis = {}
  for name, size in dims:
    axis = layout.axis_of(name)
    if axis not in mesh.axis_names:
      continue
    by_axis.setdefault(axis, []).append(name)
    ways = mesh.axis_size(axis)
    if name not in padded_dims and size % ways:
      yield (
          "%s [%s]: dimension %s=%d is split over axis %r of size %d, which "
          "does not divide it. Sizes that work near it: %s; or remove %s:%s "
          "from the layout."
          % (where, format_dims(dims), name, size, axis, ways,
             _near_multiples(size, ways), name, axis))
  for axis, names in by_axis.items():
    if len(names) > 1:
      yield (
          "%s [%s]: dimensions %s are both split over axis %r; one tensor "
          "can have one of them there. Remove a rule, or give one of the "
          "dimensions another name."
          % (where, format_dims(dims), " and ".join(names), axis))


def _near_multiples(size, ways):
  below = size // ways * ways
  return " or ".join(str(n) for n in (below, below + ways) if n > 0)


def _parse_rules(rules):
  seen = {}
  for part in _parts(rules):
    dim_name, axis = _parse_rule(part, rules)
    if seen.setdefault(dim_name, axis) != axis:
      raise LayoutError(
          "Layout %r: dimension %r is mapped to axes %r and %r; a dimension "
          "has one axis. Remove one of the rules."
          % (rules, dim_name, seen[dim_name], axis))
    yield dim_name, axis


def _parts(rules):
  if isinstance(rules, str):
    return [part for part in rules.replace(";", ",").split(",")
            if part.strip()]
  if isinstance(rules, dict):
    return list(rules.items())
  try:
    return list(rules)
  except TypeError:
    raise LayoutError(
        "Layout: %r given; accepted is text like 'batch:data,hidden:model', "
        "a mapping, or a list of pairs." % (rules,)) from None


def _parse_rule(part, rules):
  pair = part.split(":") if isinstance(part, str) else part
  try:
    dim_name, axis = (word.strip() for word in pair)
  except (TypeError, ValueError, AttributeError):
    dim_name = axis = ""
  if not NAME_PATTERN.match(dim_name) or not NAME_PATTERN.match(axis):
    raise LayoutError(
        "Layout %r: rule %r cannot be read; accepted is dimension:axis, for "
        "example 'batch:data,hidden:model'." % (rules, part))
  return dim_name, axis
