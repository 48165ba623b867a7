"""Gives this Python a Horovod that fits its TensorFlow.

    python tools/install_horovod.py

A Horovod that is there and fits is left alone. Otherwise a wheel comes from
the per-user cache, or is built (about 5 minutes) and kept there. Horovod's
own wheel cannot be had from an index: it is compiled against one TensorFlow.
Its XLA file is left out of the build, because it includes headers that
TensorFlow 2.19 moved; only HOROVOD_ENABLE_XLA_OPS needs it.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile

from progress import StepError, run_step, say

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSIONS = runpy.run_path(str(ROOT / "meshkeras" / "version.py"))
HOROVOD = VERSIONS["HOROVOD"]
SOURCE_SHA256 = (
    "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0")
# Part of a wheel's key. To be raised when the way of building changes.
RECIPE = 1
XLA_SOURCE = re.compile(r"^.*xla_mpi_ops\.cc.*\n", re.MULTILINE)
TENSORFLOW_PACKAGES = (
    "tensorflow", "tensorflow-cpu", "tensorflow-rocm", "tf-nightly")
# Variables that change what is compiled; others are read when it runs.
BUILD_VARIABLES = re.compile(
    "HOROVOD_(GPU|CUDA|NCCL|ROCM|CPU_OPERATIONS|ALLOW_MIXED|BUILD|WITH)"
    "|(CC|CXX|CXXFLAGS|LDFLAGS)$")
BYTES_PER_JOB = 1.5e9

DEBIAN_PACKAGES = "build-essential cmake python3-dev python3-venv"
MISSING_TOOLS = """\
these are missing on this machine: %s.
On Debian or Ubuntu, install them and run the same command again:
  sudo apt-get install """ + DEBIAN_PACKAGES

PROBE = """
import json
import horovod
import horovod.tensorflow as hvd
print("probe:" + json.dumps({
    "horovod": horovod.__version__,
    "gloo": bool(hvd.gloo_built()),
    "mpi": bool(hvd.mpi_built()),
    "process sets": hasattr(hvd, "ProcessSet"),
    "reducescatter": hasattr(hvd, "reducescatter")}))
"""


# --- what is there ---------------------------------------------------------

def installed_tensorflow():
  """Returns the version of this Python's TensorFlow, "" if it has none."""
  for package in TENSORFLOW_PACKAGES:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      return importlib.metadata.version(package)
  return ""


def built_for(folder):
  """Returns which TensorFlow the Horovod in `folder` was built against."""
  try:
    text = (pathlib.Path(folder) / "metadata.json").read_text("utf-8")
    return json.loads(text).get("tensorflow", "")
  except (OSError, ValueError):
    return ""


def series(version):
  """Returns the release series: "2.21" of "2.21.0"."""
  return ".".join(version.split(".")[:2])


def why_not(tensorflow):
  """Returns why this Python's Horovod cannot be used, "" if it can.

  A patch release does not change TensorFlow's binary interface, another
  series does.
  """
  spec = importlib.util.find_spec("horovod")
  if spec is None or not spec.submodule_search_locations:
    return "there is none"
  built = built_for(list(spec.submodule_search_locations)[0])
  if series(built) != series(tensorflow):
    return "it was built against TensorFlow %s, not %s" % (
        built or "of an unknown version", tensorflow)
  return probe(sys.executable)


def probe(python):
  """Imports Horovod with `python`; returns what is wrong, "" if nothing."""
  result = subprocess.run(
      [str(python), "-c", PROBE], stdout=subprocess.PIPE,
      stderr=subprocess.PIPE, text=True, check=False)
  found = re.search("^probe:(.*)$", result.stdout, re.MULTILINE)
  if not found:
    lines = result.stderr.strip().splitlines() or ["no reason given"]
    return "importing horovod.tensorflow fails: %s" % lines[-1]
  facts = json.loads(found.group(1))
  lacking = [name for name in ("process sets", "reducescatter")
             if not facts[name]]
  if not facts["gloo"] and not facts["mpi"]:
    lacking.append("Gloo")
  if lacking:
    return "Horovod %s has no %s" % (facts["horovod"], ", no ".join(lacking))
  return ""


def missing_build_tools(environ):
  """Returns what a build needs and PATH does not have, as plain words."""
  wanted = (
      ("a C++ compiler", [environ.get("CXX") or "c++", "g++"]),
      ("a C compiler", [environ.get("CC") or "cc", "gcc"]),
      ("cmake", [environ.get("HOROVOD_CMAKE") or "cmake"]),
      ("make", ["make"]))
  path = environ.get("PATH", "")
  return [name for name, commands in wanted
          if not any(shutil.which(c, path=path) for c in commands)]


# --- the cache -------------------------------------------------------------

def cache_folder(environ=os.environ):
  """Returns the per-user folder for the wheels."""
  base = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
  return pathlib.Path(base) / "meshkeras" / "wheels"


def wheel_key(tensorflow, environ=os.environ):
  """Returns the name under which a wheel is kept: all that it depends on.

  The C library is in it because homes are shared between machines: a wheel
  built on a newer one does not load on an older one.
  """
  words = [
      "horovod" + HOROVOD, "tf" + tensorflow, sys.implementation.cache_tag,
      sysconfig.get_platform(), "".join(platform.libc_ver()) or "libc",
      "r%d" % RECIPE]
  chosen = sorted("%s=%s" % item for item in environ.items()
                  if BUILD_VARIABLES.match(item[0]))
  if chosen:
    digest = hashlib.sha256("\n".join(chosen).encode()).hexdigest()
    words.append(digest[:8])
  return "-".join(words)


def cached_wheel(key):
  """Returns the path of the wheel kept under `key`, None if there is none."""
  wheels = sorted((cache_folder() / key).glob("horovod-*.whl"))
  return wheels[0] if wheels else None


def keep_wheel(wheel, key):
  """Moves a finished wheel into the cache in one atomic act."""
  folder = cache_folder() / key
  folder.mkdir(parents=True, exist_ok=True)
  partial = folder / (".%d.partial" % os.getpid())
  shutil.copyfile(wheel, partial)
  kept = folder / wheel.name
  os.replace(partial, kept)
  return kept


@contextlib.contextmanager
def locked(path, waiting):
  """Holds a lock file; says `waiting` when another process has it."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with open(path, "w") as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      say(waiting)
      fcntl.flock(lock, fcntl.LOCK_EX)
    yield


# --- the build -------------------------------------------------------------

def number_of_jobs():
  """Returns how many compilers fit this machine's cores and memory."""
  cores = len(os.sched_getaffinity(0))
  memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  return max(1, min(cores, int(memory / BYTES_PER_JOB)))


def build_environment(jobs, environ=os.environ):
  """Returns the variables under which Horovod is compiled.

  MAKEFLAGS of a calling `make` would reach Horovod's own: it is replaced.
  """
  env = {name: value for name, value in environ.items()
         if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
  env.update(
      HOROVOD_WITH_TENSORFLOW="1", HOROVOD_WITHOUT_PYTORCH="1",
      HOROVOD_WITHOUT_MXNET="1", MAKEFLAGS="-j%d" % jobs,
      # CMake 4 refuses Gloo's cmake_minimum_required without it.
      CMAKE_POLICY_VERSION_MINIMUM="3.5",
      # Gloo uses uint8_t undeclared, which GCC 13 and later refuse.
      CXXFLAGS=(environ.get("CXXFLAGS", "") + " -include cstdint").strip())
  if environ.get("HOROVOD_WITHOUT_GLOO") != "1":
    env["HOROVOD_WITH_GLOO"] = "1"
  if environ.get("HOROVOD_WITH_MPI") != "1":
    env["HOROVOD_WITHOUT_MPI"] = "1"
  return env


def fetch_source(work, log):
  """Downloads, verifies and unpacks Horovod's source; returns its folder."""
  # With pip's cache it may hand out a wheel built for another TensorFlow.
  run_step("fetching Horovod %s's source (seconds)" % HOROVOD, [
      sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir",
      "--no-build-isolation", "--no-binary", "horovod", "--dest", work,
      "horovod==" + HOROVOD], log, env=build_environment(1))
  archive = work / ("horovod-%s.tar.gz" % HOROVOD)
  if hashlib.sha256(archive.read_bytes()).hexdigest() != SOURCE_SHA256:
    raise StepError(
        "%s is not the published horovod-%s.tar.gz: its SHA-256 differs "
        "from the one in tools/install_horovod.py." % (archive, HOROVOD))
  with tarfile.open(archive) as tar:
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    tar.extractall(work, **safe)
  return work / ("horovod-" + HOROVOD)


def leave_out_xla(source):
  """Removes the XLA file from the sources of Horovod's TensorFlow part."""
  lists = source / "horovod" / "tensorflow" / "CMakeLists.txt"
  text, count = XLA_SOURCE.subn("", lists.read_text("utf-8"))
  if count != 1:
    raise StepError("%s names xla_mpi_ops.cc %d times, not once: Horovod %s "
                    "is not the source this was made for."
                    % (lists, count, HOROVOD))
  lists.write_text(text, "utf-8")


def build_wheel(tensorflow, key, log, jobs):
  """Compiles Horovod in a temporary folder; returns the wheel kept."""
  with tempfile.TemporaryDirectory(prefix="meshkeras-horovod-") as folder:
    work = pathlib.Path(folder)
    source = fetch_source(work, log)
    leave_out_xla(source)
    run_step("building Horovod %s for TensorFlow %s (about 5 minutes, once "
             "on this machine)" % (HOROVOD, tensorflow), [
                 sys.executable, "-m", "pip", "wheel", "-v", "--no-deps",
                 "--no-build-isolation", "--no-cache-dir",
                 "--wheel-dir", work / "wheel", source],
             log, env=build_environment(jobs))
    return keep_wheel(next((work / "wheel").glob("horovod-*.whl")), key)


# --- the whole -------------------------------------------------------------

def install_wheel(wheel, log):
  """Installs a wheel into this Python; returns what is wrong, "" if well."""
  run_step("installing Horovod (seconds)", [
      sys.executable, "-m", "pip", "install", "--no-deps",
      "--force-reinstall", "--no-cache-dir", wheel], log)
  return probe(sys.executable)


def install_built(tensorflow, key, log, jobs):
  """Builds, installs and tries a wheel; a bad one does not stay cached."""
  missing = missing_build_tools(os.environ)
  if missing:
    raise StepError(MISSING_TOOLS % ", ".join(missing))
  wheel = build_wheel(tensorflow, key, log, jobs)
  trouble = install_wheel(wheel, log)
  if trouble:
    wheel.unlink()
    raise StepError("the Horovod just built does not work: %s\nThe whole "
                    "log: %s" % (trouble, log))


def install_cached(key, log):
  """Installs the wheel kept under `key`; returns whether that went well."""
  wheel = cached_wheel(key)
  if not wheel:
    return False
  say("Horovod's wheel is in the cache: %s" % wheel.parent)
  try:
    trouble = install_wheel(wheel, log)
  except StepError as error:
    trouble = str(error)
  if trouble:
    say("it does not work and is built anew: %s" % trouble)
    wheel.unlink()
  return not trouble


def install(log, jobs):
  """Leaves this Python with a Horovod that fits its TensorFlow."""
  tensorflow = installed_tensorflow()
  if not tensorflow:
    raise StepError("%s has no TensorFlow, which Horovod is built against. "
                    "Install it first: %s -m pip install tensorflow==%s" % (
                        sys.executable, sys.executable,
                        VERSIONS["DEFAULT_TENSORFLOW"]))
  reason = why_not(tensorflow)
  if not reason:
    say("Horovod is there and fits TensorFlow %s" % tensorflow)
    return
  say("Horovod for TensorFlow %s: %s" % (tensorflow, reason))
  run_step("installing what Horovod needs (seconds)", [
      sys.executable, "-m", "pip", "install", "-r",
      ROOT / "requirements" / "horovod.txt"], log)
  key = wheel_key(tensorflow)
  lock = cache_folder() / (key + ".lock")
  with locked(lock, "another process builds this Horovod: waiting for it"):
    if not install_cached(key, log):
      install_built(tensorflow, key, log, jobs)


def main(argv=None):
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument("--jobs", type=int, default=0,
                      help="compilers at once; 0: as many as fit")
  parser.add_argument("--log", default="horovod-install.log",
                      help="file to which all output is added")
  args = parser.parse_args(argv)
  try:
    install(os.path.abspath(args.log), args.jobs or number_of_jobs())
  except StepError as error:
    sys.exit("meshkeras: %s" % error)


if __name__ == "__main__":
  main()
