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

# What Horovod's operations say when another process has gone.
_SHUT_DOWN = "Horovod has been shut down"
_ECHO = (
    "meshkeras: rank %d of %d ends because another process has ended: by an "
    "error, which that process shows, or before the end of the script.\n")

_state = {"registered": False, "failed": False}


def leave_together():
  """Makes this process wait for the others when it ends well.

  Called by: every process, once a job of several has started.
  """
  if _state["registered"] or current_job().size == 1:
    return
  _state["registered"] = True
  previous = sys.excepthook

  def hook(kind, error, trace):
    _state["failed"] = True
    if _SHUT_DOWN in str(error):
      # The report of the process that failed should be the only one (B50).
      sys.stderr.write(_ECHO % (current_job().rank, current_job().size))
    else:
      previous(kind, error, trace)

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
