"""Leaving a job together.

A process that ends shuts Horovod down for all: the others, perhaps a step
behind, would fail. So a process that ends well waits for the others, and one
that ends by an error does not, so that the launcher ends the rest.
"""

import atexit
import sys
import threading

from meshkeras.mesh import calls, host_collectives
from meshkeras.mesh.process_sets import current_job

# A process that calls sys.exit while others train must not wait for ever.
WAIT_SECONDS = 20.0

_state = {"registered": False, "failed": False}


def leave_together():
  """Makes this process wait for the others when it ends well.

  Called by: every process, once a job of several has started.
  """
  if _state["registered"] or current_job().size == 1:
    return
  _state["registered"] = True
  previous = sys.excepthook

  def hook(*exception):
    _state["failed"] = True
    previous(*exception)

  sys.excepthook = hook
  atexit.register(_wait)


def _wait():
  if _state["failed"]:
    return
  waiter = threading.Thread(target=_barrier, daemon=True)
  waiter.start()
  waiter.join(WAIT_SECONDS)


def _barrier():
  try:
    # Whoever waits for this process in a method is told where it is.
    with calls.within("the end of the script"):
      host_collectives.barrier()
  except Exception:  # the others are gone: there is nobody to wait for
    pass
