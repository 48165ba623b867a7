"""Which of meshkeras's methods this process is in.

Every method is called on every process. Where one is called behind
`if rank == 0`, the collectives of two methods would meet and mix up their
values; so each collective of the host tells which method it is part of.
"""

import contextlib

_stack = []


class Call:
  """One method that this process is in.

  Attributes:
    name: the method's.
    in_steps: whether it runs steps, in which the other processes wait for
      collectives of the graph.
  """

  def __init__(self, name):
    self.name = name
    self.in_steps = False


@contextlib.contextmanager
def within(name):
  """A scope that belongs to the method `name`; yields its Call."""
  call = Call(name)
  _stack.append(call)
  try:
    yield call
  finally:
    _stack.pop()


def begin_steps():
  """Says that the method, from now on, runs steps."""
  if _stack:
    _stack[-1].in_steps = True


def path():
  """Returns the methods that this process is in, as "fit > save"."""
  return " > ".join(call.name for call in _stack)
