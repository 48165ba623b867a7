"""Methods that every process calls, and that fail on all or on none."""

import functools
import threading

from meshkeras.mesh import calls, host_collectives
from meshkeras.mesh.process_sets import current_job

# How long a process that fails waits for the others to hear of it.
WAIT_SECONDS = 10.0
# Threads that still wait to tell of an error; one at most.
_tellers = []


def on_every_process(method):
  """Decorates a method or function that every process must call.

  If it raises on one process, the others, which wait for a collective of the
  host or will come to one, raise too, with that process's reason. Within
  steps they wait for collectives of the graph and cannot be told: there the
  launcher ends the job.
  """
  @functools.wraps(method)
  def called(*args, **kwargs):
    # A script that caught the error and goes on stays in step.
    while _tellers:
      _tellers.pop().join()
    with calls.within(method.__name__) as call:
      try:
        return method(*args, **kwargs)
      except Exception as error:
        if not call.in_steps and not host_collectives.is_known(error):
          _tell(error)
          host_collectives.mark_known(error)
        raise
  return called


def _tell(error):
  if current_job().size == 1:
    return
  teller = threading.Thread(target=_exchange, args=(error,), daemon=True)
  teller.start()
  teller.join(WAIT_SECONDS)
  if teller.is_alive():
    _tellers.append(teller)


def _exchange(error):
  try:
    host_collectives.tell_failure(error)
  except Exception:  # the others are gone: there is nobody to tell
    pass
