"""The files of a checkpoint's directory: which are ours, and removing them.

A save that was ended leaves files that no index lists. They harm nothing;
the next save to the directory removes them. A file is removed only if its
name and its first bytes both say that meshkeras wrote it.
"""

import os
import re

from meshkeras.store import shard_files
from meshkeras.store.manifest import FORMAT, INDEX_NAME

# The number of a processor, how many there are, and the save's token.
SHARD_NAME = "shard-%05d-of-%05d.%s.safetensors"
ASIDE_NAME = ".%s.%%s" % INDEX_NAME
RESULT_NAME = ".result-%05d.%s.json"

_SHARD = re.compile(r"shard-\d{5,}-of-\d{5,}\.([0-9a-f]{16})\.safetensors\Z")
_ASIDE = re.compile(re.escape(".%s." % INDEX_NAME) + r"([0-9a-f]{16})\Z")
_RESULT = re.compile(r"\.result-\d{5,}\.([0-9a-f]{16})\.json(\.part)?\Z")


def is_ours(path):
  """Returns whether meshkeras wrote this file of a checkpoint."""
  name = os.path.basename(path)
  shard = _SHARD.match(name)
  if shard:
    header = shard_files.read_header(path)
    metadata = header.get("__metadata__", {}) if isinstance(
        header, dict) else {}
    return (metadata.get("writer") == shard_files.WRITER
            and metadata.get("save") == shard.group(1))
  result = _RESULT.match(name)
  if result:
    return _begins(path, '{"save": "%s"' % result.group(1))
  if name == INDEX_NAME or _ASIDE.match(name):
    return _begins(path, '{\n "format": "%s"' % FORMAT)
  return False


def _begins(path, text):
  """Whether a file begins with `text`, or was cut short within it."""
  try:
    with open(path, encoding="utf-8") as file:
      found = file.read(len(text))
  except (OSError, UnicodeDecodeError):
    return False
  return text.startswith(found)


def remove_debris(directory, keep):
  """Removes our files that the index does not list.

  Args:
    directory: of the checkpoint.
    keep: names of the shards that stay.

  Called by: process 0, while no save to the directory runs.
  """
  for name in _names(directory):
    path = os.path.join(directory, name)
    if name != INDEX_NAME and name not in keep and is_ours(path):
      shard_files.remove_quietly(path)


def remove_checkpoint(directory):
  """Removes a checkpoint that meshkeras wrote, and nothing else.

  The index goes first, so that at no moment it looks complete and is not.
  The directory stays if it holds anything else.

  Called by: any one process.
  """
  index = os.path.join(directory, INDEX_NAME)
  if not is_ours(index):
    return
  shard_files.remove_quietly(index)
  remove_debris(directory, keep=())
  remove_if_empty(directory)


def remove_if_empty(directory):
  """Removes a directory unless it holds something."""
  try:
    os.rmdir(directory)
  except OSError:
    pass


def _names(directory):
  try:
    return os.listdir(directory)
  except OSError:
    return []


def write_flushed(path, text):
  """Writes a text file, on disk when this returns.

  Raises:
    OSError: the system refuses.
  """
  with open(path, "w", encoding="utf-8") as file:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


def flush_directory(directory):
  """Has the names in a directory written to disk, where that can be asked."""
  try:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
      os.fsync(descriptor)
    finally:
      os.close(descriptor)
  except OSError:  # some network file systems refuse; names are safe there
    pass
