"""Objects that are rebuilt from their constructor's arguments."""

import inspect

import numpy as np

from meshkeras.errors import ArgumentError, near_names


class Configured:
  """Base of layers, initializers, losses, metrics and optimizers.

  It checks keywords and gives `get_config` and `from_config`. A class keeps
  each constructor argument in an attribute of the same name; rarely used
  ones are listed, with their defaults, in `OPTIONS` and reach the
  constructor as `**options`.

  Example:
    >>> class Scale(Configured):
    ...   OPTIONS = {"offset": 0.0}
    ...   def __init__(self, factor, **options):
    ...     self.factor = factor
    ...     self.take_options(options)
    >>> Scale(2, offset=1.0).get_config()
    {'factor': 2, 'offset': 1.0}
  """

  OPTIONS = {}

  def take_options(self, options):
    """Sets the attributes of `OPTIONS`, given or by default.

    Args:
      options: the keywords that the constructor's signature did not name.

    Raises:
      ArgumentError: a keyword is not among those the class accepts.
    """
    for name, default in _all_options(type(self)).items():
      setattr(self, name, options.pop(name, default))
    if options:
      name = sorted(options)[0]
      raise ArgumentError(
          "%s: keyword %r given, which it does not accept; %s Correct or "
          "remove it."
          % (type(self).__name__, name,
             near_names(name, accepted_keywords(type(self)))))

  def get_config(self):
    """Returns {argument name: plain value}, enough to build an equal one.

    Raises:
      ArgumentError: an argument is not kept in an attribute of its name,
        has a value that cannot be written down, or has no name.
    """
    config = {}
    own = type(self).get_config is Configured.get_config
    if own and any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(
        type(self)).parameters.values()):
      raise ArgumentError(
          "%s: the constructor takes arguments without names (*args), which "
          "a config cannot hold. Give them names, or define get_config and "
          "from_config." % type(self).__name__)
    for name in accepted_keywords(type(self)):
      if hasattr(self, name):
        config[name] = plain_value(
            getattr(self, name), "%s: %s" % (type(self).__name__, name))
      elif own:
        raise ArgumentError(
            "%s: argument %r is not kept in an attribute of that name, so "
            "get_config cannot return it. Set self.%s in the constructor, "
            "or define get_config." % (type(self).__name__, name, name))
    return config

  @classmethod
  def from_config(cls, config):
    """Returns an object built from what `get_config` returned."""
    return cls(**config)


def accepted_keywords(cls):
  """Returns the names of the arguments that a class's constructor takes."""
  names = []
  for base in cls.__mro__:
    init = base.__dict__.get("__init__")
    if init is None:
      names += base.__dict__.get("OPTIONS", {})
      continue
    parameters = inspect.signature(init).parameters.values()
    names += [
        p.name for p in parameters if p.name != "self"
        and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names += base.__dict__.get("OPTIONS", {})
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
      break
  return tuple(dict.fromkeys(names))


def plain_value(value, where):
  """Returns `value` as numbers, text, lists and dictionaries.

  Args:
    value: an argument's value. An object with `get_config` becomes
      {"class_name": ..., "config": ...}; a named function its name.
    where: the words that open the error.

  Raises:
    ArgumentError: the value cannot be written down.
  """
  if value is None or isinstance(value, (bool, int, float, str)):
    return value
  if isinstance(value, np.generic):
    return value.item()
  if isinstance(value, (list, tuple)):
    return [plain_value(v, where) for v in value]
  if isinstance(value, dict):
    return {str(k): plain_value(v, where) for k, v in value.items()}
  if hasattr(value, "get_config"):
    return {"class_name": type(value).__name__, "config": value.get_config()}
  name = getattr(value, "__name__", "<lambda>")
  if callable(value) and name.isidentifier():
    return name
  raise ArgumentError(
      "%s: a value of type %s cannot be written to a config; accepted are "
      "numbers, text, lists, named functions and objects with get_config. "
      "Give it a name, or define get_config."
      % (where, type(value).__name__))


def look_up(kind, identifier, known):
  """Returns what a Keras-style identifier stands for.

  Args:
    kind: "loss", "optimizer", ..., for the error.
    identifier: a name, or {"class_name": ..., "config": ...}, or any object,
      which is returned as it is.
    known: {name: class or ready function}; classes are called without
      arguments.

  Raises:
    ArgumentError: the name is not known.
  """
  config = None
  if isinstance(identifier, dict):
    config = identifier.get("config", {})
    identifier = identifier.get("class_name")
  elif not isinstance(identifier, str):
    return identifier
  found = known.get(identifier, known.get(str(identifier).lower()))
  if found is None:
    raise ArgumentError(
        "%s %r is not known; %s Correct the name, or give an object."
        % (kind, identifier, near_names(identifier, known)))
  if config is not None and isinstance(found, type):
    return found.from_config(config)
  return found() if isinstance(found, type) else found


def _all_options(cls):
  options = {}
  for base in reversed(cls.__mro__):
    options.update(base.__dict__.get("OPTIONS", {}))
  return options
