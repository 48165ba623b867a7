"""How a process shares its host's cores and devices with the others."""

from meshkeras.upstream import tf


def session_config(job):
  """Returns the tf.ConfigProto of every session of this process.

  The first session fixes the size of the thread pools that all share, so
  they all ask for the same.

  Args:
    job: Job; its processes on this host share cores and GPUs.
  """
  config = tf.ConfigProto(
      intra_op_parallelism_threads=job.num_threads,
      # At least 2, so that one collective never waits behind another.
      inter_op_parallelism_threads=max(2, job.num_threads))
  gpus = tf.config.list_physical_devices("GPU")
  if gpus and job.size > 1:
    config.gpu_options.visible_device_list = str(job.local_rank % len(gpus))
  config.gpu_options.allow_growth = True
  return config
