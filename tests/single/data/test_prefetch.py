"""The reading thread: its order, its bounds, its errors, its end."""

import threading
import time

import pytest

from meshkeras.data import Prefetcher


def _wait_for(condition):
  deadline = time.monotonic() + 5
  while not condition() and time.monotonic() < deadline:
    time.sleep(0.005)
  assert condition()


def _num_reading_threads():
  return sum(thread.name == "meshkeras-prefetch"
             for thread in threading.enumerate())


def test_batches_come_in_order_and_the_thread_ends():
  with Prefetcher(lambda step: step, range(50)) as batches:
    assert list(batches) == list(range(50))
    assert list(batches) == []
  assert _num_reading_threads() == 0


def test_at_most_depth_batches_are_read_ahead():
  read = []
  with Prefetcher(read.append, range(50), depth=2) as batches:
    _wait_for(lambda: len(read) == 2)
    time.sleep(0.05)
    assert read == [0, 1]
    next(batches)
    _wait_for(lambda: len(read) == 3)
    time.sleep(0.05)
    assert read == [0, 1, 2]
  assert _num_reading_threads() == 0


def test_error_comes_in_the_place_of_its_batch():
  def read(step):
    if step == 2:
      raise OSError("disk of step 2")
    return step

  taken = []
  with pytest.raises(OSError, match="disk of step 2"):
    with Prefetcher(read, range(5)) as batches:
      for batch in batches:
        taken.append(batch)
  assert taken == [0, 1]
  assert _num_reading_threads() == 0


def test_leaving_early_stops_the_thread():
  with pytest.raises(KeyboardInterrupt):
    with Prefetcher(lambda step: step, range(10 ** 9)) as batches:
      for batch in batches:
        if batch == 3:
          raise KeyboardInterrupt
  assert _num_reading_threads() == 0
  assert list(batches) == []


def test_close_twice_is_harmless():
  batches = Prefetcher(lambda step: step, range(3))
  batches.close()
  batches.close()
  assert _num_reading_threads() == 0
