"""Makes the virtual environment of a clone, and keeps it up to date.

    python3 tools/setup_env.py [--horovod] [--dev] [--tensorflow 2.18.1]

The Makefile calls this before everything it runs. What was installed is
written into a stamp inside the environment, so that a second call only
compares (0.1 s). Another Python or TensorFlow makes the environment anew;
one that was made by hand is adopted. Needs nothing but Python itself.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import install_horovod
from progress import StepError, run_step, say

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSIONS = install_horovod.VERSIONS
STAMP = "meshkeras-stamp.json"
# What each part is made of: a change of these files installs it again.
PARTS = {
    "base": ("requirements/base.txt", "requirements/examples.txt",
             "setup.py"),
    "dev": ("requirements/dev.txt",),
    "horovod": ("requirements/horovod.txt",),
}
FOREIGN = """\
%s holds an environment of Python %s that this tool did not make, and
Python %s is asked for. Move it away, or choose another folder: VENV=..."""


# --- what is asked for -----------------------------------------------------

def this_python():
  """Returns this Python's release series: "3.11"."""
  return "%d.%d" % sys.version_info[:2]


def base_python():
  """Returns the Python that makes environments, also from inside one."""
  return getattr(sys, "_base_executable", None) or sys.executable


def identity(tensorflow):
  """Returns what an environment cannot change without being made anew."""
  return {"python": this_python(), "tensorflow": tensorflow,
          "root": str(ROOT)}


def constraints_file(tensorflow):
  """Returns the pins of this TensorFlow series, None if it has none."""
  series = install_horovod.series(tensorflow)
  path = ROOT / "requirements" / ("constraints-tf%s.txt" % series)
  return path if path.exists() else None


def part_key(part, tensorflow):
  """Returns a digest of all that decides what a part installs."""
  digest = hashlib.sha256()
  files = [ROOT / name for name in PARTS[part]]
  constraints = constraints_file(tensorflow)
  for path in files + ([constraints] if constraints else []):
    digest.update(path.read_bytes())
  if part == "horovod":
    digest.update(install_horovod.wheel_key(tensorflow).encode())
  return digest.hexdigest()[:16]


def check_versions(tensorflow):
  """Raises StepError if this TensorFlow and this Python do not go together."""
  pythons = VERSIONS["PYTHONS_OF_TENSORFLOW"]
  if not re.match(r"\d+\.\d+\.\d+", tensorflow):
    raise StepError("TF=%s is not a full version. Give all three numbers: "
                    "TF=%s" % (tensorflow, VERSIONS["DEFAULT_TENSORFLOW"]))
  series = install_horovod.series(tensorflow)
  if series not in pythons:
    raise StepError(
        "TF=%s is outside the supported range, %s to %s. Leave TF out for "
        "%s." % (tensorflow, list(pythons)[0], list(pythons)[-1],
                 VERSIONS["DEFAULT_TENSORFLOW"]))
  first, last = pythons[series]
  if not _minor(first) <= _minor(this_python()) <= _minor(last):
    raise StepError(
        "TensorFlow %s runs on Python %s to %s and this is Python %s (%s). "
        "Choose another Python: PYTHON=python%s%s." % (
            tensorflow, first, last, this_python(), sys.executable, last,
            _other_tensorflow(pythons)))


def _minor(version):
  return int(version.split(".")[1])


def _other_tensorflow(pythons):
  """Returns advice: the newest TensorFlow series that has this Python."""
  fitting = [series for series, (first, last) in pythons.items()
             if _minor(first) <= _minor(this_python()) <= _minor(last)]
  return "; or another TensorFlow: TF=%s.0" % fitting[-1] if fitting else ""


# --- what is there ---------------------------------------------------------

def read_stamp(venv):
  """Returns the stamp of an environment, {} if it has none."""
  try:
    return json.loads((venv / STAMP).read_text("utf-8"))
  except (OSError, ValueError):
    return {}


def write_stamp(venv, stamp):
  """Writes the stamp of an environment in one atomic act."""
  partial = venv / (STAMP + ".partial")
  partial.write_text(json.dumps(stamp, indent=2, sort_keys=True), "utf-8")
  os.replace(partial, venv / STAMP)


def venv_python(venv):
  """Returns the path of an environment's Python."""
  return venv / "bin" / "python"


def python_of(venv):
  """Returns the Python series an environment was made with, or ""."""
  try:
    text = (venv / "pyvenv.cfg").read_text("utf-8")
  except OSError:
    return ""
  found = re.search(r"^version(?:_info)? *= *(\d+\.\d+)", text, re.MULTILINE)
  return found.group(1) if found else ""


def packages_intact(venv, tensorflow, stamp):
  """Returns whether what the stamp says is still so.

  Catches a TensorFlow or a Horovod exchanged by hand; two file names are
  read for it. Packages outside the environment are not looked at.
  """
  if stamp.get("outside"):
    return True
  if not (site_packages(venv)
          / ("tensorflow-%s.dist-info" % tensorflow)).is_dir():
    return False
  return ("horovod" not in stamp.get("parts", {})
          or horovod_fits(venv, tensorflow))


def site_packages(venv):
  """Returns the folder of an environment's packages."""
  return venv / "lib" / ("python" + this_python()) / "site-packages"


def horovod_fits(venv, tensorflow):
  """Returns whether an environment's Horovod was built for `tensorflow`."""
  built = install_horovod.built_for(site_packages(venv) / "horovod")
  series = install_horovod.series
  return bool(built) and series(built) == series(tensorflow)


def state(venv, tensorflow):
  """Returns "absent", "ready", "adopt", "stale" or "foreign".

  "ready": made for this Python, TensorFlow and folder. "adopt": made by
  hand with this Python. "stale": ours, to be made anew. "foreign": made by
  hand with another Python; not ours to delete.
  """
  if not venv.exists():
    return "absent"
  stamp = read_stamp(venv)
  if not stamp:
    return "adopt" if python_of(venv) == this_python() else "foreign"
  same = all(stamp.get(name) == value
             for name, value in identity(tensorflow).items())
  usable = stamp.get("made") and os.path.exists(venv_python(venv))
  return "ready" if same and usable else "stale"


def lacking_parts(venv, tensorflow, parts):
  """Returns those of `parts` that are not installed as asked for."""
  stamp = read_stamp(venv)
  if not packages_intact(venv, tensorflow, stamp):
    return list(parts)
  done = stamp.get("parts", {})
  return [p for p in parts if done.get(p) != part_key(p, tensorflow)]


def outside_horovod_fits(tensorflow):
  """Returns whether the base Python brings TensorFlow and a Horovod for it.

  Such a pair is a cluster's own build: it is seen through, and used.
  """
  spec = importlib.util.find_spec("horovod")
  if sys.prefix != sys.base_prefix or spec is None:
    return False
  built = install_horovod.built_for(os.path.dirname(spec.origin or ""))
  there = install_horovod.installed_tensorflow()
  if built and built != tensorflow:
    say("%s has a Horovod built for TensorFlow %s; TF=%s would use it"
        % (sys.executable, built, built))
  return built == there == tensorflow


# --- what is done ----------------------------------------------------------

def check_tools(venv, venv_state, tensorflow, parts):
  """Raises StepError, before anything long, if a program will be missing."""
  missing = []
  if venv_state in ("absent", "stale"):
    if not importlib.util.find_spec("ensurepip"):
      missing.append("Python's venv")
  if "horovod" in parts and will_build(venv, venv_state, tensorflow):
    missing += install_horovod.missing_build_tools(os.environ)
  if missing:
    raise StepError(install_horovod.MISSING_TOOLS % ", ".join(missing))


def will_build(venv, venv_state, tensorflow):
  """Returns whether Horovod is neither there nor in the cache."""
  kept = venv_state in ("adopt", "ready") and horovod_fits(venv, tensorflow)
  key = install_horovod.wheel_key(tensorflow)
  return not (kept or install_horovod.cached_wheel(key)
              or outside_horovod_fits(tensorflow))


def make_venv(venv, tensorflow, log):
  """Makes an environment; a stamp in it from the start marks it as ours."""
  outside = outside_horovod_fits(tensorflow)
  if venv.exists():
    shutil.rmtree(venv)
  venv.mkdir(parents=True)
  stamp = dict(identity(tensorflow), parts={}, made=False, outside=outside)
  write_stamp(venv, stamp)
  command = [base_python(), "-m", "venv", venv]
  if outside:
    command.append("--system-site-packages")
  run_step("making %s with Python %s (seconds)" % (venv, this_python()),
           command, log)
  write_stamp(venv, dict(stamp, made=True))


def pip_install(venv, label, words, log):
  """Runs `pip install` in an environment."""
  command = [venv_python(venv), "-m", "pip", "install",
             "--disable-pip-version-check"]
  run_step(label, command + words, log)


def install_base(venv, tensorflow, log):
  """Installs TensorFlow, what meshkeras needs, and meshkeras itself."""
  requirements = ROOT / "requirements"
  words = ["-r", requirements / "base.txt",
           "-r", requirements / "examples.txt", "tensorflow==" + tensorflow]
  constraints = constraints_file(tensorflow)
  if constraints:
    words += ["-c", constraints]
  else:
    say("no pins for TensorFlow %s: pip takes the newest that it allows"
        % tensorflow)
  pip_install(venv, "installing TensorFlow %s and what meshkeras needs "
              "(about a minute)" % tensorflow, words, log)
  pip_install(venv, "installing meshkeras from this folder (seconds)",
              ["--no-deps", "--no-build-isolation", "-e", ROOT], log)


def install_dev(venv, tensorflow, log):
  """Installs what tests and style checks need."""
  words = ["-r", ROOT / "requirements" / "dev.txt"]
  constraints = constraints_file(tensorflow)
  pip_install(venv, "installing test and style tools (seconds)",
              words + (["-c", constraints] if constraints else []), log)


def install_horovod_part(venv, log, jobs):
  """Has the environment's own Python take, or build, its Horovod."""
  if subprocess.call([
      venv_python(venv), ROOT / "tools" / "install_horovod.py",
      "--log", log, "--jobs", str(jobs)]):
    raise StepError("no Horovod in %s" % venv)


def install_parts(venv, tensorflow, parts, log, jobs):
  """Installs parts in order, each one stamped when it is done."""
  installers = {
      "base": lambda: install_base(venv, tensorflow, log),
      "dev": lambda: install_dev(venv, tensorflow, log),
      "horovod": lambda: install_horovod_part(venv, log, jobs)}
  for part in parts:
    installers[part]()
    stamp = dict(read_stamp(venv) or dict(parts={}, outside=False),
                 made=True, **identity(tensorflow))
    stamp["parts"] = dict(stamp["parts"],
                          **{part: part_key(part, tensorflow)})
    write_stamp(venv, stamp)


def set_up(venv, tensorflow, parts, jobs):
  """Leaves `venv` with the parts asked for; does nothing if it has them."""
  check_versions(tensorflow)
  venv_state = state(venv, tensorflow)
  if venv_state == "ready" and not lacking_parts(venv, tensorflow, parts):
    return
  if venv_state == "foreign":
    raise StepError(FOREIGN % (venv, python_of(venv) or "?", this_python()))
  log = venv.with_name(venv.name + ".log")
  log.write_text("")
  check_tools(venv, venv_state, tensorflow, parts)
  if venv_state in ("absent", "stale"):
    make_venv(venv, tensorflow, log)
  install_parts(venv, tensorflow, lacking_parts(venv, tensorflow, parts),
                log, jobs)


def main(argv=None):
  parser = argparse.ArgumentParser(
      description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
  parser.add_argument("--venv", default=str(ROOT / ".venv"))
  parser.add_argument("--tensorflow", default="")
  parser.add_argument("--horovod", action="store_true")
  parser.add_argument("--dev", action="store_true")
  parser.add_argument("--jobs", type=int, default=0,
                      help="compilers at once; 0: as many as fit")
  args = parser.parse_args(argv)
  venv = pathlib.Path(os.path.abspath(args.venv))
  parts = ["base"] + ["dev"] * args.dev + ["horovod"] * args.horovod
  digest = hashlib.sha256(str(venv).encode()).hexdigest()[:16]
  lock = install_horovod.cache_folder().parent / "locks" / digest
  try:
    with install_horovod.locked(
        lock, "another set-up of %s is running: waiting for it" % venv):
      set_up(venv, args.tensorflow or VERSIONS["DEFAULT_TENSORFLOW"],
             parts, args.jobs)
  except StepError as error:
    sys.exit("meshkeras: %s" % error)


if __name__ == "__main__":
  main()
