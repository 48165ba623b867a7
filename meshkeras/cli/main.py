"""python -m meshkeras: which command, its flags, and its exit code."""

import sys

from absl import app, flags

from meshkeras.cli import show_checkpoint
from meshkeras.errors import ArgumentError, MeshKerasError
from meshkeras.saving import reading

_USAGE = """python -m meshkeras COMMAND [flags]

  inspect PATH         what a checkpoint holds: variables, dims, type, bytes
  verify PATH          check every byte against the checksums
  export PATH OUT      full values to one file, OUT.safetensors or OUT.npz
  diff PATH PATH       how the variables of two checkpoints differ

  --files              inspect: each part of each variable, and its file
  --role=weight|slot   export: only these variables

Exit code: 0; 1 for a checkpoint that is damaged, not there or different, or
an OUT that cannot be written; 2 for a wrong command."""

_role = flags.DEFINE_enum(
    "role", None, ["weight", "slot"], "export: only these variables.")
_files = flags.DEFINE_bool(
    "files", False, "inspect: each part of each variable, and its file.")


def inspect(path):
  """Prints a checkpoint's table."""
  print(show_checkpoint.table(path, with_files=_files.value))
  return 0


def verify(path):
  """Checks every byte."""
  count, num_bytes = reading.verify(path)
  print("%s: complete; %d variables, %d bytes, all as they were saved"
        % (path, count, num_bytes))
  return 0


def export(path, out):
  """Writes full values to one file."""
  count = reading.export(path, out, _role.value)
  print("%s: %d variables written" % (out, count))
  return 0


def diff(path, other):
  """Prints how two checkpoints differ."""
  lines = reading.diff(path, other)
  print("\n".join(lines) or "equal")
  return 1 if lines else 0


_COMMANDS = {"inspect": (inspect, 1), "verify": (verify, 1),
             "export": (export, 2), "diff": (diff, 2)}


def run(arguments):
  """Runs one command; returns the exit code.

  Args:
    arguments: words after the flags: the program, the command, its paths.
  """
  name, paths = (arguments[1] if len(arguments) > 1 else None), arguments[2:]
  if name not in _COMMANDS or len(paths) != _COMMANDS[name][1]:
    print(_USAGE, file=sys.stderr)
    return 2
  try:
    return _COMMANDS[name][0](*paths)
  except MeshKerasError as error:
    print(error, file=sys.stderr)
    return 2 if isinstance(error, ArgumentError) else 1


def main():
  """Runs the command of sys.argv and exits with its code."""
  app.run(run, flags_parser=_parse)


def _parse(arguments):
  if {"--help", "-h"} & set(arguments[1:]):
    print(_USAGE)
    sys.exit(0)
  try:
    return flags.FLAGS(arguments)
  except flags.Error as error:
    print("%s\n\n%s" % (error, _USAGE), file=sys.stderr)
    sys.exit(2)
