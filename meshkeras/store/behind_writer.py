"""Writing to a file in a thread, while more bytes are produced."""

import os
import queue
import threading

from meshkeras.store.flusher import Flusher

# Chunks that may wait to be written; each keeps the array it is a part of.
WAITING_CHUNKS = 2


class BehindWriter:
  """Writes chunks in order, behind whoever reads values and adds checksums.

  Args:
    descriptor: of an open file, at its end.
  """

  def __init__(self, descriptor):
    self._descriptor = descriptor
    self._flusher = Flusher(descriptor)
    self._chunks = queue.Queue(WAITING_CHUNKS)
    self._error = None
    self._thread = None

  def write(self, chunk):
    """Takes bytes to be written; they must stay as they are.

    Raises:
      OSError: this write or one before has failed.
    """
    self._raise()
    if self._thread is None:
      thread = threading.Thread(target=self._work, daemon=True)
      try:
        thread.start()
      except RuntimeError:  # no memory for a thread
        self._write(chunk)
        return
      self._thread = thread
    self._chunks.put(chunk)

  def _work(self):
    while True:
      chunk = self._chunks.get()
      if chunk is None:
        return
      # After an error chunks are taken and dropped: who writes must not wait.
      if self._error is None:
        try:
          self._write(chunk)
        except OSError as error:
          self._error = error

  def _write(self, chunk):
    view = memoryview(chunk)
    while view:
      view = view[os.write(self._descriptor, view):]
    self._flusher.wrote(len(chunk))

  def finish(self):
    """Returns when all is written; `flush` has it on disk.

    Raises:
      OSError: a write has failed.
    """
    self._join()
    self._raise()

  def flush(self):
    """Returns when all that was written is on disk.

    Raises:
      OSError: a flush has failed.
    """
    self._flusher.finish()

  def close(self):
    """Ends the threads; the file may be closed after it."""
    self._join()
    self._flusher.close()

  def _join(self):
    if self._thread is not None:
      self._chunks.put(None)
      self._thread.join()
      self._thread = None

  def _raise(self):
    if self._error is not None:
      raise self._error
