"""What is installed, next to what meshkeras was tested with.

The texts of `upstream.py`: one report that shows found and tested versions
and the line which installs what fits. Imports nothing from upstream, so that
it can speak when upstream is missing.
"""

import importlib.metadata
import os
import re
import sys

from meshkeras import version

IGNORE_VARIABLE = "MESHKERAS_IGNORE_VERSIONS"
_PACKAGES = {
    "TensorFlow": ("tensorflow", "tensorflow-cpu", "tensorflow-rocm",
                   "tf-nightly"),
    "mesh-tensorflow": ("mesh-tensorflow",),
    "Horovod": ("horovod",),
}
_REPORT = """\
meshkeras cannot use what is installed: {problem}.

  {head}
{rows}

To install what fits{where}:
  {line}"""
_NEWER = (
    "meshkeras was tested with {package} {tested}, and {found} is installed: "
    "it may fail at import, or give other numbers. To silence this warning, "
    "set {variable}=1; to be sure, {line}")


def found_version(package):
  """Returns the installed version of a package, "" if there is none."""
  for name in _PACKAGES[package]:
    try:
      return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      continue
  return ""


def tested_versions(package):
  """Returns the tested versions of a package as words."""
  if package == "TensorFlow":
    series = list(version.PYTHONS_OF_TENSORFLOW)
    return "%s to %s" % (series[0], series[-1])
  return {"mesh-tensorflow": version.MESH_TENSORFLOW,
          "Horovod": version.HOROVOD}[package]


def age(package, found):
  """Compares a version with the tested ones: "older", "tested" or "newer".

  Only the release series counts for TensorFlow, which ships fixes as patch
  releases. An empty or unreadable version counts as tested.
  """
  bounds = tested_versions(package).split(" to ")
  first, last = _numbers(bounds[0]), _numbers(bounds[-1])
  numbers = _numbers(found)[:len(first)]
  if not numbers or first <= numbers <= last:
    return "tested"
  return "older" if numbers < first else "newer"


def _numbers(text):
  return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


def fitting_tensorflow():
  """Returns the requirement of the newest TensorFlow this Python can have."""
  pythons = version.PYTHONS_OF_TENSORFLOW
  here = sys.version_info[:2]
  fitting = [series for series, (first, last) in pythons.items()
             if _numbers(first) <= here <= _numbers(last)]
  if not fitting or version.DEFAULT_TENSORFLOW.startswith(fitting[-1] + "."):
    return "tensorflow==" + version.DEFAULT_TENSORFLOW
  return "tensorflow==%s.*" % fitting[-1]


def install_line(package):
  """Returns the command that installs a version of `package` which fits."""
  if package == "Horovod":
    return "%s tools/install_horovod.py" % sys.executable
  return '%s -m pip install "%s" "mesh-tensorflow==%s"' % (
      sys.executable, fitting_tensorflow(), version.MESH_TENSORFLOW)


def report(package, problem):
  """Returns the whole message about a package that cannot be used.

  Args:
    package: "TensorFlow", "mesh-tensorflow" or "Horovod".
    problem: what is wrong, a clause without a full stop.
  """
  row = "%-16s %-10s %s"
  rows = [row % (name, found_version(name) or "none", tested_versions(name))
          for name in _PACKAGES]
  rows[-1] += "   (for more than one process)"
  # Horovod is compiled against one TensorFlow; its own package fails to
  # build with TensorFlow 2.19 and later.
  clone = " (in a clone of meshkeras; about 5 minutes, the first time)"
  return _REPORT.format(
      problem=problem, head=row % ("", "found", "tested"),
      rows="\n".join("  " + text for text in rows),
      where=clone if package == "Horovod" else "",
      line=install_line(package))


def newer_warning(package, found):
  """Returns the text of the warning about a version newer than tested."""
  return _NEWER.format(
      package=package, tested=tested_versions(package), found=found,
      variable=IGNORE_VARIABLE, line="run: " + install_line(package))


def newer_is_ignored():
  """Returns whether the user asked for no warning about newer versions."""
  return os.environ.get(IGNORE_VARIABLE, "0") not in ("", "0")
