"""Whole launches: how a job ends, and what a user's own Horovod calls do.

An uncaught error ends the job at once with a code other than 0, wherever
it is raised; hvd.init() may be the user's.
"""

import re
import time

import pytest

from tests.parallel import launcher

# From the moment of the error to the end of the launcher.
SECONDS = 30.0

MODEL = """
import sys, time
import numpy as np
import meshkeras as mk
from meshkeras import layers
from meshkeras.mesh.process_sets import current_job

def say(text):
  sys.stdout.write("%s\\n" % text)
  sys.stdout.flush()

def make(mesh=None, layout=None):
  model = mk.Sequential([
      mk.Input((8,), dims=("pixels",)),
      layers.Dense(16, dim="hidden"), layers.Dense(4, dim="classes")])
  model.compile(
      optimizer="sgd", mesh=mesh, layout=layout,
      loss=mk.losses.SparseCategoricalCrossentropy(from_logits=True))
  return model

x = np.random.RandomState(0).standard_normal((24, 8)).astype("float32")
y = np.arange(24) % 4
rank = current_job().rank
"""

UNCAUGHT = MODEL + """
say("TIME %.3f" % time.time())
y[-1] = 4
make().fit(x, y, batch_size=4, verbose=0)
"""

# Rank 1 leaves in the middle of an epoch, while the others go on.
IN_A_CALLBACK = MODEL + """
class Leave(mk.callbacks.Callback):
  def on_train_batch_begin(self, batch, logs=None):
    if batch == 3 and rank == 1:
      say("TIME %.3f" % time.time())
      {leave}

make().fit(x, y, batch_size=4, epochs=100000, verbose=0,
           callbacks=[Leave()])
say("TRAINED")
"""

LAST_CALL_OF_RANK_0 = MODEL + """
model = make()
model.fit(x, y, batch_size=4, verbose=0)
model.save(sys.argv[0] + ".saved")
say("TIME %.3f" % time.time())
if rank == 0:
  model.load_weights(sys.argv[0] + ".saved")
"""

INIT_FIRST = """
import horovod.tensorflow as hvd
hvd.init()
""" + MODEL + """
try:
  make("data:2,model:2", "batch:data,hidden:model").fit(
      x, y, batch_size=8, verbose=0)
  say("NO ERROR")
except mk.errors.ProcessSetError as error:
  say("REFUSED " + str(error))
loss = make("data:4", "batch:data").fit(
    x, y, batch_size=8, verbose=0).history["loss"]
say("LOSS %.6f" % loss[0])
"""

INIT_BETWEEN = """
import meshkeras
import horovod.tensorflow as hvd
hvd.init()
""" + MODEL + """
assert hvd.size() == 4 and hvd.rank() == rank
loss = make("data:2,model:2", "batch:data,hidden:model").fit(
    x, y, batch_size=8, verbose=0).history["loss"]
say("LOSS %.6f" % loss[0])
"""


def run(code, num_processes, directory):
  """Returns (Launch, seconds from the last TIME it said to its end)."""
  done = launcher.launch_code(
      code, num_processes, directory,
      timeout_seconds=2 * launcher.TIMEOUT_SECONDS)
  ended = time.time()
  assert not done.stalled, done.tail()
  times = [float(t) for t in re.findall(r"TIME (\d+\.\d+)", done.output)]
  return done, ended - max(times) if times else None


def test_uncaught_bad_label_ends_the_job_with_its_message(tmp_path):
  done, seconds = run(UNCAUGHT, 2, tmp_path)
  assert done.code not in (0, None)
  message = (r"DataError: rank 1 of 2: fit: y, rows counted from 12: .*label 4"
             r" at row 11 given; accepted are whole numbers from 0 to 3")
  assert re.search(message, done.output), done.tail()
  assert seconds < SECONDS


@pytest.mark.parametrize("leave, trace", [
    ("raise RuntimeError('a callback of rank 1')",
     "RuntimeError: a callback of rank 1"),
    ("sys.exit(3)", ""),
])
def test_one_rank_that_leaves_ends_the_job(tmp_path, leave, trace):
  done, seconds = run(IN_A_CALLBACK.replace("{leave}", leave), 2, tmp_path)
  assert done.code not in (0, None)
  assert trace in done.output
  assert "TRAINED" not in done.output
  # B50: what the others notice of it does not hide the error itself.
  assert "rank 0 of 2 ends because another process has ended" in done.output
  assert done.output.count("Traceback") <= (2 if trace else 1)  # + launcher's
  assert seconds < SECONDS


def test_last_call_behind_if_rank_0_says_where_the_processes_are(tmp_path):
  """B49: others waited for ever, or rank 0 did."""
  done, seconds = run(LAST_CALL_OF_RANK_0, 2, tmp_path)
  assert done.code not in (0, None)
  assert ("ProcessSetError: The processes are in different methods: rank 0 in "
          "load_weights, rank 1 in the end of the script."
          in done.output), done.tail()
  assert seconds < SECONDS


def losses_of(output):
  return re.findall(r"LOSS (\d+\.\d+)", output)


def test_init_by_the_user_before_the_import_works_or_says_what_to_do(
    tmp_path):
  done, _ = run(INIT_FIRST, 4, tmp_path)
  assert done.code == 0, done.tail()
  assert "NO ERROR" not in done.output
  refused = re.findall(r"REFUSED (.*)", done.output)
  assert len(refused) == 4 and len(set(refused)) == 1
  assert "hvd.init(process_sets='dynamic')" in refused[0]
  assert "mesh 'data:2,model:2'" in refused[0]
  # A mesh of one axis needs no set but the one of all processes.
  assert len(losses_of(done.output)) == 4
  assert len(set(losses_of(done.output))) == 1


def test_init_by_the_user_after_the_import_works(tmp_path):
  done, _ = run(INIT_BETWEEN, 4, tmp_path)
  assert done.code == 0, done.tail()
  assert len(losses_of(done.output)) == 4
  assert len(set(losses_of(done.output))) == 1
