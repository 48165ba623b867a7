"""Which of meshkeras's methods this process is in.

Every method is called on every process. Where one is called behind
`if rank == 0`, the collectives of two methods would meet and mix up their
values; so each collective of the host tells which method it is part of.
"""

import contextlib
import functools

_stack = []


@contextlib.contextmanager
def within(name):
  """A scope that belongs to the method `name`."""
  _stack.append(name)
  try:
    yield
  finally:
    _stack.pop()


def on_every_process(method):
  """Decorates a method or function that every process must call."""
  @functools.wraps(method)
  def called(*args, **kwargs):
    with within(method.__name__):
      return method(*args, **kwargs)
  return called


def path():
  """Returns the methods that this process is in, as "fit > save"."""
  return " > ".join(_stack)
