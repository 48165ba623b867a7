"""Reading the next batches while the current one trains."""

import queue
import threading


class Prefetcher:
  """An iterator over `read(step)` that a second thread keeps ahead.

  An exception in `read` is raised where its batch would have come. Used as
  a context manager it stops its thread on the way out, also when the loop
  is left early; a read that is under way is waited for.

  Args:
    read: function of a step, called in the second thread, in order.
    steps: iterable of steps.
    depth: batches kept ready, at least 1. Each costs its memory.

  Example:
    >>> with Prefetcher(lambda step: step * 10, range(3)) as batches:
    ...   list(batches)
    [0, 10, 20]
  """

  def __init__(self, read, steps, depth=2):
    self._read = read
    self._steps = steps
    self._room = threading.Semaphore(depth)
    self._ready = queue.SimpleQueue()
    self._stop = threading.Event()
    self._done = False
    self._thread = threading.Thread(
        target=self._run, name="meshkeras-prefetch", daemon=True)
    self._thread.start()

  def __enter__(self):
    return self

  def __exit__(self, *exc_info):
    self.close()

  def __iter__(self):
    return self

  def __next__(self):
    if self._done:
      raise StopIteration
    kind, value = self._ready.get()
    if kind == "batch":
      self._room.release()
      return value
    self._done = True
    self._thread.join()
    if kind == "error":
      raise value
    raise StopIteration

  def close(self):
    """Stops the thread; batches not yet taken are dropped."""
    self._done = True
    self._stop.set()
    self._room.release()
    self._thread.join()
    while not self._ready.empty():
      self._ready.get_nowait()

  def _run(self):
    try:
      for step in self._steps:
        self._room.acquire()
        if self._stop.is_set():
          break
        self._ready.put(("batch", self._read(step)))
    except BaseException as error:  # it belongs to the thread that iterates
      self._ready.put(("error", error))
    else:
      self._ready.put(("end", None))
