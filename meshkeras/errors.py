"""The exceptions meshkeras raises.

Every message has four parts in this order: where, what was given, what
would be accepted, what to change. All classes derive from MeshKerasError;
those caused by a bad value are also ValueError, those caused by a wrong
order or a bad state are also RuntimeError, so that code written for Keras
keeps catching what it caught.
"""

import difflib


class MeshKerasError(Exception):
  """Base of every error that meshkeras raises on purpose."""


class DimensionError(MeshKerasError, ValueError):
  """A tensor dimension's name or size does not fit."""


class LayoutError(MeshKerasError, ValueError):
  """A layout rule names what is not there, or splits what cannot be split."""


class MeshError(MeshKerasError, ValueError):
  """A mesh is malformed or does not fit the number of processes."""


class DataError(MeshKerasError, ValueError):
  """An array given to fit, evaluate or predict cannot be used."""


class ArgumentError(MeshKerasError, ValueError):
  """An argument has a value that is not accepted."""


class OrderError(MeshKerasError, RuntimeError):
  """A method was called before the one it depends on."""


class CheckpointError(MeshKerasError, RuntimeError):
  """A checkpoint cannot be written, found, verified or restored."""


class ProcessSetError(MeshKerasError, RuntimeError):
  """The processes of a job disagree, or a process set cannot be made."""


class InternalError(MeshKerasError, RuntimeError):
  """An invariant of meshkeras itself is broken: worth a report."""


class UpstreamError(MeshKerasError, ImportError):
  """TensorFlow, Mesh TensorFlow or Horovod is missing or does not fit."""


def near_names(name, candidates):
  """Returns a phrase listing the candidates closest to `name`.

  Args:
    name: the word that was not found.
    candidates: iterable of words that would have been.

  Returns: "did you mean 'hidden'?" or "known: 'a', 'b'", for the end of a
    message.

  Example:
    >>> near_names("hiden", ["hidden", "batch"])
    "did you mean 'hidden'?"
    >>> near_names("x", ["hidden", "batch"])
    "known names: 'batch', 'hidden'"
  """
  candidates = sorted({str(c) for c in candidates})
  close = difflib.get_close_matches(str(name), candidates, n=3, cutoff=0.6)
  if close:
    return "did you mean %s?" % " or ".join(repr(c) for c in close)
  if not candidates:
    return "there are none"
  return "known names: %s" % ", ".join(repr(c) for c in candidates)
