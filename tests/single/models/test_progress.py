"""What the progress bar writes, where, and how often."""

import io

import pytest

from meshkeras.errors import ArgumentError
from meshkeras.models.progress import ProgressBar


class Terminal(io.StringIO):
  encoding = "utf-8"

  def isatty(self):
    return True


class Clock:
  """Seconds that pass only when told."""

  seconds = 100.0

  def __call__(self):
    return self.seconds


def _run(stream, verbose, is_chief=True, num_steps=4, titles=True):
  """An epoch: 10 s for the first step, 0.5 s for each other."""
  clock = Clock()
  bar = ProgressBar(num_steps, verbose, is_chief, stream, clock)
  bar.begin(*((1, 5) if titles else ()))
  for step in range(1, num_steps + 1):
    clock.seconds += 0.5 if step > 1 else 10
    bar.update(step, {"loss": 1.0 / step} if step % 2 == 0 else None)
  bar.end({"loss": 0.125, "val_loss": 0.00001})
  return stream.getvalue()


def test_bar_on_a_terminal_is_redrawn_in_place():
  text = _run(Terminal(), verbose=1)
  title, drawn = text.split("\n", 1)
  frames = drawn.split("\r")[1:]
  assert title == "Epoch 2/5"
  assert len(frames) == 4
  assert frames[0] == "0/4 " + "─" * 20 + " - 0s"
  assert frames[1].rstrip() == (
      "2/4 " + "━" * 10 + "─" * 10 + " - 10s - 500ms/step - loss: 0.5000")
  assert frames[3] == (
      "4/4 " + "━" * 20 + " - 12s - 500ms/step - loss: 0.1250 - "
      "val_loss: 1.0000e-05\n")


def test_shorter_line_covers_the_longer_one():
  stream = Terminal()
  bar = ProgressBar(2, 1, True, stream, Clock())
  bar.begin()
  bar.update(1, {"a_long_metric": 1.0})
  bar.update(2, {"a": 1.0})
  _, _, longer, shorter = stream.getvalue().split("\r")
  assert len(shorter) == len(longer)


def test_bar_never_wraps_on_a_narrow_terminal(monkeypatch):
  monkeypatch.setenv("COLUMNS", "50")
  stream = Terminal()
  bar = ProgressBar(2, 1, True, stream, Clock())
  bar.begin()
  bar.update(1, {"metric_%d" % i: 1.0 for i in range(9)})
  assert max(map(len, stream.getvalue().split("\r"))) == 49


@pytest.mark.parametrize("verbose, stream", [
    (1, io.StringIO), ("auto", io.StringIO), (2, io.StringIO), (2, Terminal)])
def test_one_plain_line_per_epoch(verbose, stream):
  assert _run(stream(), verbose) == (
      "Epoch 2/5 - 4/4 - 12s - 500ms/step - loss: 0.1250 - "
      "val_loss: 1.0000e-05\n")


def test_evaluation_has_no_epoch():
  assert _run(io.StringIO(), 2, titles=False).startswith("4/4 - 12s")
  assert "Epoch" not in _run(Terminal(), 1, titles=False)


def test_one_step_counts_as_it_is():
  assert "10s - 10.00s/step" in _run(io.StringIO(), 2, num_steps=1)


@pytest.mark.parametrize("verbose, is_chief", [(0, True), (1, False),
                                               (2, False)])
def test_silent(verbose, is_chief):
  assert _run(Terminal(), verbose, is_chief) == ""


def test_ascii_stream_gets_an_ascii_bar():
  raw = io.BytesIO()
  stream = io.TextIOWrapper(raw, encoding="ascii")
  stream.isatty = lambda: True
  bar = ProgressBar(2, 1, True, stream, Clock())
  bar.begin(0, 1)
  bar.update(1, {"größe": 1.0})
  bar.end({"größe": 1.0})
  assert b"1/2 ==========.......... - 0s - 0us/step - gr??e" in raw.getvalue()


def test_screen_that_goes_away_ends_nothing():
  stream = Terminal()
  bar = ProgressBar(2, 1, True, stream, Clock())
  bar.begin(0, 1)
  stream.close()
  bar.update(1, {"loss": 1.0})
  bar.end({"loss": 1.0})


def test_interval_follows_the_clock():
  bar = ProgressBar(1000, 1, True, Terminal())
  assert bar.suggested_interval(0.001) == 300
  assert bar.suggested_interval(0.1) == 3
  assert bar.suggested_interval(10.0) == 1
  assert bar.suggested_interval(0.0) == 1000
  assert ProgressBar(7, 2).suggested_interval(1.0) == 7
  assert ProgressBar(7, 1, False, Terminal()).suggested_interval(1.0) == 7
  assert ProgressBar(0, 0).suggested_interval(1.0) == 1


@pytest.mark.parametrize("verbose", [3, -1, "loud", None])
def test_bad_verbose_is_refused(verbose):
  with pytest.raises(ArgumentError, match="verbose: %r" % verbose):
    ProgressBar(1, verbose)
