"""A callback made of functions."""

from meshkeras.errors import ArgumentError, near_names
from meshkeras.models.hooks import Callback


class LambdaCallback(Callback):
  """Runs the functions given, each at the hook it is named after.

  Args:
    **hooks: hook name -> function with that hook's arguments, for example
      `on_epoch_end=lambda epoch, logs: ...`.

  Raises:
    ArgumentError: a name is no hook, or a value is no function.

  Example:
    >>> seen = []
    >>> callback = LambdaCallback(
    ...     on_epoch_end=lambda epoch, logs: seen.append(logs["loss"]))
    >>> callback.on_epoch_end(0, {"loss": 0.5})
    >>> seen
    [0.5]
  """

  def __init__(self, **hooks):
    known = [name for name in vars(Callback) if name.startswith("on_")]
    for name, function in hooks.items():
      if name not in known:
        raise ArgumentError(
            "LambdaCallback: keyword %r given; accepted are the hooks of "
            "Callback; %s. Correct the name." % (name, near_names(name, known)))
      if function is None:
        continue
      if not callable(function):
        raise ArgumentError(
            "LambdaCallback: %s=%r given; accepted is a function. Pass one."
            % (name, function))
      setattr(self, name, function)
