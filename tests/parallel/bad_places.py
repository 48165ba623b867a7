"""Directories as one process may meet them: on a full disk, or not its own.

Each breaks a directory for the calling process alone, and can be undone.
What the user may not do is done in the next best way: see `means`.
"""

import ctypes
import errno
import os
import resource
import threading

_CLONE_NEWNS = 0x20000
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x4000, 1 << 18, 2
_NOBODY = 65534

_libc = ctypes.CDLL(None, use_errno=True)


class FullDisk:
  """A file system of one page, filled, in place of a directory.

  The thread gets a view of the mounted file systems of its own, for good;
  threads that it starts later share it. Where that is not allowed, files may
  have 64 bytes.
  """

  def __init__(self, path):
    self._path = path
    self._thread = None
    self.means = None

  def __call__(self):
    try:
      _check(_libc.unshare(_CLONE_NEWNS))
    except PermissionError:
      self.means = "a limit of the size of files"
      _limit_files(64)
      return
    self._thread = threading.get_ident()
    self.means = "a full file system"
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    _check(_libc.mount(b"tmpfs", self._path.encode(), b"tmpfs", 0, b"size=4k"))
    with open(os.path.join(self._path, "filler"), "wb") as file:
      file.write(bytes(4096))

  def undo(self):
    """Sees the directory again; another thread always has."""
    if self._thread == threading.get_ident():
      _check(_libc.umount2(self._path.encode(), _MNT_DETACH))
    self._thread = None
    _limit_files(resource.getrlimit(resource.RLIMIT_FSIZE)[1])


class ReadOnly:
  """A directory that this process may not write to.

  Root, who may write everywhere, becomes nobody for a while; another user
  has the directory's permission taken away, which every process then lacks.
  """

  def __init__(self, path):
    self._path = path
    self.means = "another user" if os.geteuid() == 0 else "permissions"

  def __call__(self):
    if self.means == "another user":
      os.seteuid(_NOBODY)
    else:
      os.chmod(self._path, 0o555)

  def undo(self):
    if self.means == "another user":
      os.seteuid(0)
    else:
      os.chmod(self._path, 0o755)


def _limit_files(num_bytes):
  hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
  resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))


def _check(result):
  if result:
    code = ctypes.get_errno()
    if code == errno.EPERM:
      raise PermissionError(code, os.strerror(code))
    raise OSError(code, os.strerror(code))
