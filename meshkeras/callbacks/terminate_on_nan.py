"""Ending a fit whose loss is lost."""

import math

from meshkeras.models.hooks import Callback


class TerminateOnNaN(Callback):
  """Stops a fit after the step that makes the loss NaN or infinite.

  The loss is the mean of the epoch so far: one bad step makes it NaN.

  When split:
    any layout: the sums behind the loss are reduced after every step, not
      only where the progress bar asks for them; for small models that is
      most of a step's time.
  """

  def on_batch_end(self, batch, logs=None):
    loss = (logs or {}).get("loss")
    if loss is not None and not math.isfinite(loss):
      self.announce("Step %d of the epoch: loss %s, training ends"
                    % (batch, loss))
      self.model.stop_training = True
