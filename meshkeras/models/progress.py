"""The progress of a fit, an evaluation or a prediction on the screen."""

import shutil
import sys
import time

from meshkeras.errors import ArgumentError

BAR_WIDTH = 20
# Often enough to look alive; each refresh reduces metrics over processes.
REFRESH_SECONDS = 0.3


class ProgressBar:
  """Draws one line per epoch, on the process that is chief.

  It decides nothing that other processes must agree on: whoever runs the
  steps tells it how far they are, with the numbers if there are fresh ones.

  Args:
    num_steps: steps of an epoch.
    verbose: 0 writes nothing; 1 (or "auto") draws a bar in place on a
      terminal, and one line per epoch elsewhere; 2 writes one line per
      epoch.
    is_chief: True on the one process that writes.
    stream: where to; `sys.stdout` if not given.
    clock: function that returns seconds.

  Raises:
    ArgumentError: verbose is none of these.

  Example:
    >>> bar = ProgressBar(num_steps=3, verbose=2, clock=lambda: 0.0)
    >>> bar.begin(epoch=0, num_epochs=5)
    >>> bar.update(1)
    >>> bar.end({"loss": 0.25})
    Epoch 1/5 - 3/3 - 0s - 0us/step - loss: 0.2500
  """

  def __init__(self, num_steps, verbose=1, is_chief=True, stream=None,
               clock=time.monotonic):
    if verbose not in (0, 1, 2, "auto"):
      raise ArgumentError(
          "verbose: %r given; accepted is 0 (nothing), 1 or 'auto' (a bar) "
          "or 2 (one line per epoch). Change it." % (verbose,))
    self._num_steps = num_steps
    self._stream = sys.stdout if stream is None else stream
    self._writes = is_chief and verbose != 0
    self._draws = self._writes and verbose != 2 and _is_terminal(self._stream)
    self._clock = clock
    self._title = ""
    self._logs = {}
    self._drawn_width = 0
    self._begin_seconds = self._first_seconds = self._last_seconds = None
    self._first_steps = self._last_steps = 0

  def begin(self, epoch=None, num_epochs=None):
    """Starts an epoch, counted from 0; or an evaluation without one."""
    self._title = "" if epoch is None else "Epoch %d/%d" % (
        epoch + 1, num_epochs)
    self._logs = {}
    self._drawn_width = 0
    self._begin_seconds = self._clock()
    self._first_seconds = self._last_seconds = None
    if self._draws:
      if self._title:
        self._write(self._title + "\n")
      self._draw(0)

  def update(self, steps_done, logs=None):
    """Tells how many steps of the epoch are done.

    Args:
      steps_done: of this epoch, at least 1.
      logs: {name: float} if there are fresh numbers; else the last ones
        stay, and nothing is drawn.
    """
    self._last_seconds = self._clock()
    if self._first_seconds is None:
      # The first step makes the graph: it would spoil the time per step.
      self._first_seconds, self._first_steps = self._last_seconds, steps_done
    self._last_steps = steps_done
    if logs is not None:
      self._logs = dict(logs)
      if self._draws:
        self._draw(steps_done)

  def end(self, logs=None):
    """Ends the epoch's line, with all its numbers."""
    if logs is not None:
      self._logs = dict(logs)
    if self._draws:
      self._draw(self._num_steps, last=True)
      self._write("\n")
    elif self._writes:
      parts = [self._title] if self._title else []
      parts += ["%d/%d" % (self._num_steps, self._num_steps)]
      self._write(" - ".join(parts + self._numbers()) + "\n")

  def suggested_interval(self, seconds_per_step):
    """Returns the steps until fresh numbers are wanted next, at least 1.

    That is a fraction of a second's worth of steps; a whole epoch's where
    nothing is drawn on the way.
    """
    if not self._draws:
      return max(1, self._num_steps)
    steps = round(REFRESH_SECONDS / max(seconds_per_step, 1e-6))
    return max(1, min(self._num_steps, steps))

  def _draw(self, steps_done, last=False):
    done = BAR_WIDTH * steps_done // max(1, self._num_steps)
    full, empty = _bar_characters(self._stream)
    parts = ["%*d/%d %s" % (
        len(str(self._num_steps)), steps_done, self._num_steps,
        full * done + empty * (BAR_WIDTH - done))]
    line = " - ".join(parts + self._numbers())
    if not last:
      # A line that wraps could not be drawn over.
      line = line[:shutil.get_terminal_size((80, 24)).columns - 1]
    self._write("\r" + line.ljust(self._drawn_width))
    self._drawn_width = len(line)

  def _numbers(self):
    """Returns the texts of the elapsed time, the step's time, the logs."""
    now = self._clock()
    texts = ["%.0fs" % (now - self._begin_seconds)]
    if self._last_seconds is not None:
      texts.append("%s/step" % format_seconds(self._seconds_per_step()))
    return texts + ["%s: %s" % (name, format_value(value))
                    for name, value in self._logs.items()]

  def _seconds_per_step(self):
    if self._last_steps > self._first_steps:
      return ((self._last_seconds - self._first_seconds)
              / (self._last_steps - self._first_steps))
    return ((self._last_seconds - self._begin_seconds)
            / max(1, self._last_steps))

  def _write(self, text):
    try:
      try:
        self._stream.write(text)
      except UnicodeEncodeError:
        self._stream.write(text.encode("ascii", "replace").decode("ascii"))
      self._stream.flush()
    except (OSError, ValueError):
      # A screen that went away must not end one process of several.
      self._writes = self._draws = False


def format_seconds(seconds):
  """Returns a duration of a step in three digits and a unit.

  Example:
    >>> format_seconds(0.0000421), format_seconds(0.0123), format_seconds(2)
    ('42us', '12ms', '2.00s')
  """
  if seconds < 1e-3:
    return "%.0fus" % (seconds * 1e6)
  if seconds < 1:
    return "%.0fms" % (seconds * 1e3)
  return "%.3gs" % seconds if seconds >= 100 else "%.2fs" % seconds


def format_value(value):
  """Returns a metric's value with four digits that mean something.

  Example:
    >>> format_value(0.12345), format_value(0.000012345), format_value(0.0)
    ('0.1235', '1.2345e-05', '0.0000')
  """
  if isinstance(value, (int, float)) and 0 < abs(value) < 1e-3:
    return "%.4e" % value
  try:
    return "%.4f" % value
  except TypeError:
    return str(value)


def _is_terminal(stream):
  try:
    return stream.isatty()
  except (AttributeError, ValueError):
    return False


def _bar_characters(stream):
  try:
    "━─".encode(getattr(stream, "encoding", None) or "ascii")
  except (UnicodeEncodeError, LookupError):
    return "=", "."
  return "━", "─"
