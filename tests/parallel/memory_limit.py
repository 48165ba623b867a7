"""A limit of the memory that this process may use, kept by the system."""

import os

# What the two versions of control groups call it.
_PLACES = (("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
           ("", "/sys/fs/cgroup", "memory.max"))


class Group:
  """A control group with this process alone in it.

  A process that uses more is ended by the system. Files it has written or
  read count too, but the system drops them when memory is short.
  """

  def __init__(self, parent, limit_name):
    self._parent = parent
    self._path = os.path.join(parent, "meshkeras-test-%d" % os.getpid())
    self._limit_name = limit_name
    os.mkdir(self._path)
    try:
      with open(os.path.join(self._path, limit_name), encoding="ascii"):
        pass
      self._join(self._path)
    except OSError:
      os.rmdir(self._path)
      raise

  def limit(self, num_bytes):
    with open(os.path.join(self._path, self._limit_name), "w",
              encoding="ascii") as file:
      file.write(str(num_bytes))

  def leave(self):
    self._join(self._parent)
    os.rmdir(self._path)

  @staticmethod
  def _join(path):
    with open(os.path.join(path, "cgroup.procs"), "w",
              encoding="ascii") as file:
      file.write(str(os.getpid()))


def own_group():
  """Returns a Group, or None where this user may make none."""
  own = {}
  with open("/proc/self/cgroup", encoding="ascii") as file:
    for line in file:
      _, controllers, path = line.rstrip("\n").split(":", 2)
      own.update((controller, path) for controller in controllers.split(","))
  for controller, mount, limit_name in _PLACES:
    if controller in own:
      try:
        return Group(mount + own[controller], limit_name)
      except OSError:
        continue
  return None
