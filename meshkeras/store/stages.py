"""Named moments of a save, at which a test can watch or end the process."""

# Before and after each act that a kill could interrupt.
STAGES = (
    "before_directory", "after_directory", "before_write", "within_write",
    "after_write", "before_flush", "after_flush", "before_gather",
    "after_gather", "before_index", "after_index", "before_commit",
    "after_commit", "before_removal", "after_removal")

_observers = []


def observe(observer):
  """Has `observer(stage)` called at each stage, by the thread that saves."""
  _observers.append(observer)


def stop_observing(observer):
  """Ends what `observe` began."""
  _observers.remove(observer)


def reach(stage):
  """Tells the observers that a save is at this stage."""
  for observer in list(_observers):
    observer(stage)
