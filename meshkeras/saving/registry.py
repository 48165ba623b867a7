"""Classes and functions of the user, by name, for models that are loaded."""

from meshkeras import layers, losses, metrics, optimizers
from meshkeras.errors import ArgumentError
from meshkeras.layers import activations, initializers

_registered = {}

_BUILT_IN = {
    name for module in (layers, losses, metrics, optimizers)
    for name in module.__all__} | {
        name for module in (activations, initializers)
        for name in vars(module) if not name.startswith("_")}


def register(thing):
  """Makes a class or a function known to `load_model`; a decorator.

  Models, layers, losses, metrics, optimizers, initializers, schedules and
  activation functions may be registered. It is known by its name.

  Args:
    thing: class with `get_config`, or function.

  Returns: thing.
  Raises:
    ArgumentError: it has no name of its own, or that of something else.

  Example:
    >>> from meshkeras import layers, saving
    >>> @saving.register
    ... class Twice(layers.Layer):
    ...   def call(self, x, training=False):
    ...     return x + x
    >>> saving.registered()["Twice"] is Twice
    True
  """
  name = getattr(thing, "__name__", None)
  if not callable(thing) or not name or not name.isidentifier():
    raise ArgumentError(
        "register: %r given; accepted is a class or a named function. Give "
        "one of them." % (thing,))
  other = _registered.get(name)
  if name in _BUILT_IN or (other is not None and not _same(other, thing)):
    raise ArgumentError(
        "register: the name %r given, which is that of %s; a name stands for "
        "one thing. Give it another name."
        % (name, "a part of meshkeras" if other is None else
           "%s.%s" % (other.__module__, other.__qualname__)))
  _registered[name] = thing
  return thing


def _same(one, other):
  """Whether two are one, or one and its newer definition in a notebook."""
  return (one.__module__, one.__qualname__) == (
      other.__module__, other.__qualname__)


def registered():
  """Returns {name: class or function} of what is registered."""
  return dict(_registered)


def is_built_in(thing):
  """Returns whether a class or function is meshkeras's own."""
  module = getattr(thing, "__module__", None) or ""
  return module.split(".")[0] == "meshkeras"


def has_built_in_name(name):
  """Returns whether a name is that of a part of meshkeras."""
  return name in _BUILT_IN
