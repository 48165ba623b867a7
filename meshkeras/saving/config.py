"""A model's architecture and compile arguments as plain values, and back."""

import inspect
import types
import warnings

from meshkeras import losses, metrics, optimizers
from meshkeras.errors import CheckpointError, MeshKerasError, near_names
from meshkeras.layers.configured import accepted_keywords, plain_value
from meshkeras.layers.input import Input
from meshkeras.saving import registry

# Arguments whose texts are names that the user chose, never functions.
_NAMES = ("name", "dim", "dims", "mesh", "layout", "dtype", "units")

_CANNOT = (
    "save: %s cannot be rebuilt from its config:\n%s\n"
    "Correct that; or save_weights, which needs no config.")
_UNKNOWN_LATER = (
    "save: %s: not registered, so load_model needs custom_objects={%s}. "
    "@meshkeras.saving.register before the definition silences this.")


def describe(model):
  """Returns a model's architecture and compile arguments as plain values.

  Each layer, loss, metric and optimizer is built again from its config, so
  that what would fail when the model is loaded is said now.

  Args:
    model: built and compiled Model.

  Raises:
    CheckpointError: something cannot be rebuilt; all of it in one report.
  """
  problems, customs = [], {}
  parts = list(model.layers) + [
      part for part in [model.optimizer, model.loss] if part is not None]
  parts += [metric for metric, _ in model.compiled_metrics
            if not isinstance(metric, str)]
  for part in parts:
    customs.update(_customs_of(part))
    problems += _problems(part)
  if not registry.is_built_in(type(model)):
    customs[type(model).__name__] = type(model)
  config = None
  try:
    config = _model_config(model)
  except MeshKerasError as error:
    if not problems:  # a part's fault is the model's too
      problems.append(str(error))
  problems += ["the name %r is that of a part of meshkeras" % name
               for name in customs if registry.has_built_in_name(name)]
  if problems:
    raise CheckpointError(_CANNOT % (
        "model %r" % model.name, "\n".join("  " + p for p in problems)))
  unknown = sorted(set(customs) - set(registry.registered()))
  if unknown:
    warnings.warn(_UNKNOWN_LATER % (
        ", ".join(unknown), ", ".join("%r: %s" % (n, n) for n in unknown)),
                  stacklevel=3)
  return {
      "class_name": type(model).__name__, "config": config,
      "input": model.input.get_config(), "custom": sorted(customs),
      "compile": _compile_config(model)}


def _model_config(model):
  if hasattr(model, "get_config"):
    return plain_value(model.get_config(), "model %r" % model.name)
  config = {}
  required = _required_arguments(type(model))
  for name in accepted_keywords(type(model)):
    if name == "input":
      continue
    if hasattr(model, name):
      config[name] = plain_value(
          getattr(model, name), "model %r: %s" % (model.name, name))
    elif name in required:
      raise CheckpointError(
          "model %r: argument %r of %s is not kept in an attribute of that "
          "name. Set self.%s in the constructor, or define get_config."
          % (model.name, name, type(model).__name__, name))
  return config


def _required_arguments(cls):
  return [p.name for p in inspect.signature(cls).parameters.values()
          if p.default is p.empty
          and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _compile_config(model):
  found = {"metrics": [], "weighted_metrics": []}
  for metric, weighted in model.compiled_metrics:
    found["weighted_metrics" if weighted else "metrics"].append(
        plain_value(metric, "metric %r" % (metric,)))
  found["loss"] = plain_value(model.loss, "loss")
  found["optimizer"] = plain_value(model.optimizer, "optimizer")
  return found


def _customs_of(part):
  """Returns {name: class or function} of the user's own in an object."""
  found = {}
  waiting, seen = [part], set()
  while waiting:
    value = waiting.pop()
    if id(value) in seen:
      continue
    seen.add(id(value))
    if isinstance(value, (list, tuple)):
      waiting += list(value)
    elif isinstance(value, dict):
      waiting += list(value.values())
    elif isinstance(value, types.FunctionType):
      if not registry.is_built_in(value):
        found[value.__name__] = value
    elif hasattr(value, "get_config"):
      if not registry.is_built_in(type(value)):
        found[type(value).__name__] = type(value)
      waiting += list(vars(value).values())
  return found


def _problems(part):
  """Returns what keeps an object from being rebuilt, as a list of texts."""
  label = getattr(part, "label", None) or type(part).__name__
  if not hasattr(part, "get_config"):
    name = getattr(part, "__name__", "")
    return [] if name.isidentifier() else [
        "%r has no name to be known by" % (part,)]
  try:
    config = plain_value(part.get_config(), label)
    names = {**registry.registered(), **_customs_of(part)}
    again = type(part).from_config(resolve(config, names))
    found = plain_value(again.get_config(), label)
  # Whatever the user's constructor raises is what loading would raise.
  except Exception as error:
    return ["%s: %s" % (label, error)]
  plain = [name for name in accepted_keywords(type(part))
           if _came_back_plain(getattr(part, name, None),
                               getattr(again, name, None))]
  if plain:
    return ["%s: argument %r holds an object of meshkeras's, which comes back "
            "as a dictionary. Let the constructor take plain values and make "
            "the object, or define from_config." % (label, name)
            for name in plain]
  changed = sorted(key for key in set(config) | set(found)
                   if config.get(key) != found.get(key))
  return ["%s: built from %s=%r it has %s=%r" % (
      label, key, config.get(key), key, found.get(key)) for key in changed]


def _came_back_plain(given, again):
  """Whether an object of an argument has become a dictionary."""
  if isinstance(again, dict) and not isinstance(given, dict):
    return hasattr(given, "get_config")
  if isinstance(given, dict) and isinstance(again, dict):
    return any(_came_back_plain(value, again.get(key))
               for key, value in given.items())
  if isinstance(given, (list, tuple)) and isinstance(again, (list, tuple)):
    return any(map(_came_back_plain, given, again))
  return False


def rebuild(description, classes, custom_objects):
  """Returns (model, keywords for its compile) of what `describe` returned.

  Args:
    description: dict.
    classes: {name: class} of meshkeras's own models.
    custom_objects: {name: class or function} of the user's.

  Raises:
    CheckpointError: a class is not known, or cannot be built.
  """
  names = {**registry.registered(), **(custom_objects or {})}
  class_name = description["class_name"]
  known = {**classes, **names}
  missing = [name for name in description["custom"] if name not in names]
  if missing:
    raise CheckpointError(
        "load_model: %s not known: the model was saved with %s of its own; "
        "%s. Pass custom_objects={%s}, or register them before."
        % (", ".join(missing), "a class" if len(missing) == 1 else "classes",
           near_names(missing[0], names),
           ", ".join("%r: %s" % (name, name) for name in missing)))
  config = resolve(description["config"], names)
  cls = known[class_name]
  model = cls.from_config(config) if hasattr(cls, "from_config") else (
      cls(**config))
  if model.input is None:
    model.input = Input.from_config(description["input"])
  compiled = resolve(description["compile"], names)
  for key, get in (("optimizer", optimizers.get), ("loss", _get_loss)):
    if isinstance(compiled[key], dict):
      compiled[key] = get(compiled[key])
  for key in ("metrics", "weighted_metrics"):
    compiled[key] = [
        _get_metric(m) if isinstance(m, dict) else m for m in compiled[key]]
  return model, compiled


def _get_loss(config):
  if config["class_name"] == "FunctionLoss":
    return losses.FunctionLoss.from_config(config["config"])
  return losses.get(config)


def _get_metric(config):
  if config["class_name"] == "FunctionMean":
    return metrics.FunctionMean.from_config(config["config"])
  return metrics.get(config)


def resolve(value, names):
  """Returns a config in which the user's own things are objects.

  Args:
    value: plain value; {"class_name", "config"} of meshkeras's own classes
      are left to the constructors.
    names: {name: class or function}.
  """
  if isinstance(value, list):
    return [resolve(item, names) for item in value]
  if isinstance(value, str):
    found = names.get(value)
    return value if found is None or isinstance(found, type) else found
  if not isinstance(value, dict):
    return value
  inner = {key: item if key in _NAMES else resolve(item, names)
           for key, item in value.items()}
  cls = names.get(value.get("class_name")) if (
      set(value) == {"class_name", "config"}) else None
  if cls is None or not isinstance(cls, type):
    return {**inner, "class_name": value["class_name"]} if (
        "class_name" in value) else inner
  return cls.from_config(inner["config"]) if hasattr(cls, "from_config") else (
      cls(**inner["config"]))
