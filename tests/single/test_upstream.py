"""The versions found at import: which are taken, and what is said of others."""

import os
import subprocess
import sys
import types
import warnings

import pytest

from meshkeras import installed, upstream, version
from meshkeras.errors import MeshKerasError, UpstreamError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def run_python(code, folder, **environ):
  """Runs code in a process that sees the fake packages of a folder first."""
  env = {name: value for name, value in os.environ.items()
         if not name.startswith(("HOROVOD_", "OMPI_"))}
  env["PYTHONPATH"] = os.pathsep.join([str(folder), ROOT])
  env.update(environ)
  return subprocess.run(
      [sys.executable, "-c", code], stdout=subprocess.PIPE,
      stderr=subprocess.PIPE, text=True, env=env, check=False)


def fake_package(folder, name, text):
  (folder / name).mkdir()
  (folder / name / "__init__.py").write_text(text)


def fake_horovod(gloo=True, mpi=False, lacking=()):
  """Returns a stand-in for horovod.tensorflow."""
  hvd = types.SimpleNamespace(
      __file__="/nowhere/horovod/tensorflow/__init__.py",
      gloo_built=lambda: gloo, mpi_built=lambda: mpi)
  for name in ("ProcessSet", "reducescatter", "alltoall"):
    if name not in lacking:
      setattr(hvd, name, None)
  return hvd


@pytest.fixture
def use_horovod(monkeypatch):
  """Makes upstream.horovod() check a stand-in instead of the real one."""
  def check(hvd):
    monkeypatch.setattr(upstream, "_import", lambda *_: hvd)
    return upstream.horovod.__wrapped__()
  return check


# --- versions as words -----------------------------------------------------

@pytest.mark.parametrize("package, found, age", [
    ("TensorFlow", "2.14.1", "older"),
    ("TensorFlow", "2.15.0", "tested"),
    ("TensorFlow", "2.21.7", "tested"),
    ("TensorFlow", "2.22.0rc0", "newer"),
    ("TensorFlow", "3.0.0", "newer"),
    ("mesh-tensorflow", "0.1.20", "older"),
    ("mesh-tensorflow", "0.1.21", "tested"),
    ("Horovod", "0.28.2", "newer"),
    ("Horovod", "", "tested"),
])
def test_age_of_version_is_told(package, found, age):
  assert installed.age(package, found) == age


def test_report_has_found_tested_and_install_line(monkeypatch):
  found = {"tensorflow": "2.9.1", "mesh-tensorflow": "0.1.21"}

  def fake_version(name):
    if name in found:
      return found[name]
    raise installed.importlib.metadata.PackageNotFoundError(name)

  monkeypatch.setattr(installed.importlib.metadata, "version", fake_version)
  text = installed.report("TensorFlow", "TensorFlow 2.9.1 is too old")
  assert "TensorFlow 2.9.1 is too old." in text
  assert "TensorFlow       2.9.1      2.15 to 2.21" in text
  assert "mesh-tensorflow  0.1.21     0.1.21" in text
  assert "Horovod          none       0.28.1" in text
  assert text.splitlines()[-1] == '  %s -m pip install "%s" "%s"' % (
      sys.executable, installed.fitting_tensorflow(),
      "mesh-tensorflow==0.1.21")


def test_fitting_tensorflow_follows_the_python(monkeypatch):
  monkeypatch.setattr(sys, "version_info", (3, 11, 7))
  assert installed.fitting_tensorflow() == (
      "tensorflow==" + version.DEFAULT_TENSORFLOW)
  monkeypatch.setattr(sys, "version_info", (3, 9, 18))
  assert installed.fitting_tensorflow() == "tensorflow==2.20.*"


# --- at import -------------------------------------------------------------

def test_import_without_tensorflow_raises_one_report(tmp_path):
  fake_package(tmp_path, "tensorflow", "raise ImportError('no such library')")
  result = run_python("import meshkeras.upstream", tmp_path)
  assert result.returncode == 1
  assert "no such library" in result.stderr
  assert "2.15 to 2.21" in result.stderr
  assert result.stderr.count("meshkeras cannot use what is installed") == 1


def test_import_with_old_tensorflow_raises(tmp_path):
  fake_package(tmp_path, "tensorflow", "__version__ = '2.14.0'")
  result = run_python("import meshkeras.upstream", tmp_path)
  assert result.returncode == 1
  assert "TensorFlow 2.14.0 is too old" in result.stderr
  assert "-m pip install" in result.stderr


def test_import_under_launcher_with_broken_horovod_raises(tmp_path):
  fake_package(tmp_path, "horovod", "raise ImportError('built for another')")
  result = run_python("import meshkeras", tmp_path, HOROVOD_SIZE="2",
                      HOROVOD_RANK="1")
  assert result.returncode == 1
  assert "importing horovod.tensorflow fails" in result.stderr
  assert "built for another" in result.stderr
  assert "tools/install_horovod.py" in result.stderr


def test_import_without_launcher_leaves_horovod_alone(tmp_path):
  fake_package(tmp_path, "horovod", "raise ImportError('not to be imported')")
  result = run_python("import meshkeras.upstream", tmp_path)
  assert result.returncode == 0, result.stderr


# --- newer than tested -----------------------------------------------------

def test_newer_version_warns_with_effect_and_silence(monkeypatch):
  monkeypatch.delenv(installed.IGNORE_VARIABLE, raising=False)
  with pytest.warns(UserWarning, match="2.15 to 2.21, and 2.23.1 is") as seen:
    upstream._check_version("TensorFlow", "2.23.1")
  assert "may fail at import" in str(seen[0].message)
  assert "MESHKERAS_IGNORE_VERSIONS=1" in str(seen[0].message)


def test_newer_version_is_silent_when_asked_and_on_other_ranks(monkeypatch):
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    monkeypatch.setenv(installed.IGNORE_VARIABLE, "1")
    upstream._check_version("TensorFlow", "2.23.1")
    monkeypatch.delenv(installed.IGNORE_VARIABLE)
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    upstream._check_version("TensorFlow", "2.23.1")


# --- Horovod ---------------------------------------------------------------

@pytest.mark.parametrize("hvd, problem", [
    (fake_horovod(gloo=False), "built without Gloo"),
    (fake_horovod(lacking=["ProcessSet", "reducescatter"]),
     "no ProcessSet, no reducescatter"),
])
def test_horovod_lacking_something_raises(use_horovod, hvd, problem):
  with pytest.raises(UpstreamError, match=problem) as caught:
    use_horovod(hvd)
  assert "0.28.1" in str(caught.value)
  assert isinstance(caught.value, (ImportError, MeshKerasError))


def test_horovod_built_for_another_tensorflow_raises(use_horovod, tmp_path):
  (tmp_path / "metadata.json").write_text('{"tensorflow": "2.1.0"}')
  hvd = fake_horovod()
  hvd.__file__ = str(tmp_path / "tensorflow" / "__init__.py")
  with pytest.raises(UpstreamError, match="against TensorFlow 2.1.0"):
    use_horovod(hvd)


def test_mpirun_without_mpi_names_horovodrun(use_horovod, monkeypatch):
  monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "3")
  assert upstream.launched_size() == 3
  with pytest.raises(UpstreamError, match="horovodrun -np 3"):
    use_horovod(fake_horovod())
  assert use_horovod(fake_horovod(mpi=True))


def test_launched_size_is_one_without_launcher(monkeypatch):
  for name in ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE"):
    monkeypatch.delenv(name, raising=False)
  assert upstream.launched_size() == 1
  monkeypatch.setenv("HOROVOD_SIZE", "4")
  assert upstream.launched_size() == 4
