"""Writing a file's bytes to disk while more of them are produced."""

import os
import threading

# Bytes written before it is worth to have them flushed.
FLUSH_BYTES = 1 << 25


class Flusher:
  """Flushes an open file in a thread, behind whoever writes it.

  A system keeps written bytes in memory until it is asked for them; asked
  only at the end, the disk would idle while values are read and checksums
  computed.

  Args:
    descriptor: of the file.
  """

  def __init__(self, descriptor):
    self._descriptor = descriptor
    self._waiting = 0
    self._wanted = threading.Event()
    self._ended = False
    self._error = None
    self._thread = None

  def wrote(self, num_bytes):
    """Tells it that so many bytes more were written.

    Raises:
      OSError: a flush before has failed.
    """
    self._raise()
    self._waiting += num_bytes
    if self._waiting < FLUSH_BYTES:
      return
    self._waiting = 0
    if self._thread is None:
      thread = threading.Thread(target=self._work, daemon=True)
      try:
        thread.start()
      except RuntimeError:  # no memory for a thread: the end flushes all
        return
      self._thread = thread
    self._wanted.set()

  def _work(self):
    while True:
      self._wanted.wait()
      self._wanted.clear()
      if self._ended:
        return
      try:
        os.fdatasync(self._descriptor)
      except OSError as error:
        # The system tells an error once: it must not be lost here.
        self._error = error
        return

  def close(self):
    """Ends the thread; the file may be closed after it."""
    if self._thread is not None:
      self._ended = True
      self._wanted.set()
      self._thread.join()
      self._thread = None

  def finish(self):
    """Returns when all is on disk.

    Raises:
      OSError: this flush or one before has failed.
    """
    self.close()
    self._raise()
    os.fsync(self._descriptor)

  def _raise(self):
    if self._error is not None:
      raise self._error
