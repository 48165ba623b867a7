"""The set-up tools: what decides that something is installed again."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import install_horovod  # noqa: E402
import progress  # noqa: E402
import setup_env  # noqa: E402

TF = "2.21.0"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
  """Keeps the tests away from the user's cache."""
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def make_fake_venv(venv, tensorflow=TF, python=None, horovod=None):
  """Writes the few files of an environment that the tool looks at."""
  site = setup_env.site_packages(venv)
  (site / ("tensorflow-%s.dist-info" % tensorflow)).mkdir(parents=True)
  (venv / "bin").mkdir()
  (venv / "bin" / "python").symlink_to(sys.executable)
  (venv / "pyvenv.cfg").write_text(
      "version = %s.1\n" % (python or setup_env.this_python()))
  if horovod:
    (site / "horovod").mkdir()
    (site / "horovod" / "metadata.json").write_text(
        json.dumps({"tensorflow": horovod}))


def stamp_fake_venv(venv, parts=("base",), tensorflow=TF, **changes):
  stamp = dict(setup_env.identity(tensorflow), made=True, outside=False)
  stamp["parts"] = {p: setup_env.part_key(p, tensorflow) for p in parts}
  setup_env.write_stamp(venv, dict(stamp, **changes))


# --- the key of a wheel ----------------------------------------------------

def test_wheel_key_depends_on_tensorflow_and_names_all_versions():
  key = install_horovod.wheel_key("2.18.1", {})
  assert "tf2.18.1" in key and "horovod0.28.1" in key
  assert sys.implementation.cache_tag in key
  assert key != install_horovod.wheel_key("2.18.0", {})


def test_wheel_key_depends_on_build_variables_only():
  plain = install_horovod.wheel_key(TF, {})
  assert plain == install_horovod.wheel_key(TF, {"HOROVOD_CYCLE_TIME": "1"})
  for variable in ("HOROVOD_GPU_OPERATIONS", "HOROVOD_WITH_MPI", "CXX"):
    assert plain != install_horovod.wheel_key(TF, {variable: "x"})


def test_keep_wheel_is_found_under_its_key_alone(tmp_path):
  wheel = tmp_path / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
  wheel.write_bytes(b"wheel")
  kept = install_horovod.keep_wheel(wheel, "key")
  assert install_horovod.cached_wheel("key") == kept
  assert kept.read_bytes() == b"wheel"
  assert os.listdir(kept.parent) == [wheel.name]
  assert install_horovod.cached_wheel("other key") is None


# --- the build -------------------------------------------------------------

def test_missing_build_tools_are_named_with_debian_packages(tmp_path):
  (tmp_path / "make").write_text("#!/bin/sh\n")
  (tmp_path / "make").chmod(0o755)
  missing = install_horovod.missing_build_tools({"PATH": str(tmp_path)})
  assert missing == ["a C++ compiler", "a C compiler", "cmake"]
  text = install_horovod.MISSING_TOOLS % ", ".join(missing)
  assert ("apt-get install build-essential cmake python3-dev python3-venv"
          in text)


def test_setup_without_compiler_stops_before_anything_is_made(tmp_path):
  empty = tmp_path / "empty"
  empty.mkdir()
  venv = tmp_path / "venv"
  result = subprocess.run(
      [sys.executable, str(ROOT / "tools" / "setup_env.py"), "--horovod",
       "--venv", str(venv)],
      env=dict(os.environ, PATH=str(empty)), stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT, text=True, check=False)
  assert result.returncode == 1
  assert "a C++ compiler, a C compiler, cmake, make" in result.stdout
  assert "build-essential cmake" in result.stdout
  assert not venv.exists()


def test_setup_without_python_venv_names_its_package(tmp_path, monkeypatch):
  monkeypatch.setattr(setup_env.importlib.util, "find_spec", lambda _: None)
  with pytest.raises(progress.StepError, match="Python's venv") as error:
    setup_env.set_up(tmp_path / "venv",
                     setup_env.VERSIONS["DEFAULT_TENSORFLOW"], ["base"], 1)
  assert "python3-venv" in str(error.value)
  assert "compiler" not in str(error.value)
  assert not (tmp_path / "venv").exists()


def test_leave_out_xla_removes_one_line(tmp_path):
  lists = tmp_path / "horovod" / "tensorflow" / "CMakeLists.txt"
  lists.parent.mkdir(parents=True)
  lists.write_text('before\nlist(APPEND S "a/xla_mpi_ops.cc")\nafter\n')
  install_horovod.leave_out_xla(tmp_path)
  assert lists.read_text() == "before\nafter\n"
  with pytest.raises(progress.StepError, match="0 times, not once"):
    install_horovod.leave_out_xla(tmp_path)


def test_build_environment_replaces_makeflags():
  env = install_horovod.build_environment(
      3, {"MAKEFLAGS": " -- TF=2.18.1", "MAKELEVEL": "1", "CXXFLAGS": "-g"})
  assert env["MAKEFLAGS"] == "-j3" and "MAKELEVEL" not in env
  assert env["CXXFLAGS"] == "-g -include cstdint"
  assert env["HOROVOD_WITH_GLOO"] == "1"
  assert env["HOROVOD_WITHOUT_MPI"] == "1"


def test_locked_admits_one_process_at_a_time(tmp_path):
  code = ("import pathlib, sys; sys.path.insert(0, %r)\n"
          "import install_horovod as h\n"
          "with h.locked(pathlib.Path(%r), 'waiting'): print('inside')"
          % (str(ROOT / "tools"), str(tmp_path / "lock")))
  with install_horovod.locked(tmp_path / "lock", "waiting"):
    other = subprocess.Popen([sys.executable, "-c", code],
                             stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "meshkeras: waiting\n"
    assert other.poll() is None
  assert other.communicate(timeout=60)[0] == "inside\n"


# --- the stamp -------------------------------------------------------------

def test_state_of_stamped_environment_follows_its_identity(tmp_path):
  venv = tmp_path / "venv"
  assert setup_env.state(venv, TF) == "absent"
  make_fake_venv(venv)
  stamp_fake_venv(venv)
  assert setup_env.state(venv, TF) == "ready"
  assert setup_env.state(venv, "2.18.1") == "stale"
  stamp_fake_venv(venv, python="3.8")
  assert setup_env.state(venv, TF) == "stale"
  stamp_fake_venv(venv, root="/another/clone")
  assert setup_env.state(venv, TF) == "stale"
  stamp_fake_venv(venv, made=False)
  assert setup_env.state(venv, TF) == "stale"


@pytest.mark.parametrize("python, state", [(None, "adopt"),
                                           ("3.7", "foreign")])
def test_state_without_stamp_depends_on_python(tmp_path, python, state):
  make_fake_venv(tmp_path / "venv", python=python)
  assert setup_env.state(tmp_path / "venv", TF) == state


def test_foreign_environment_is_not_deleted(tmp_path):
  venv = tmp_path / "venv"
  make_fake_venv(venv, python="3.7")
  with pytest.raises(progress.StepError, match="Python 3.7 that this tool"):
    setup_env.set_up(venv, setup_env.VERSIONS["DEFAULT_TENSORFLOW"],
                     ["base"], 1)
  assert (venv / "pyvenv.cfg").exists()


def test_lacking_parts_are_those_not_stamped_or_changed(tmp_path):
  venv = tmp_path / "venv"
  make_fake_venv(venv, horovod=TF)
  stamp_fake_venv(venv, ["base", "horovod"])
  every = ["base", "dev", "horovod"]
  assert setup_env.lacking_parts(venv, TF, every) == ["dev"]
  setup_env.write_stamp(venv, dict(setup_env.read_stamp(venv),
                                   parts={"base": "old key"}))
  assert setup_env.lacking_parts(venv, TF, ["base"]) == ["base"]


def test_packages_exchanged_by_hand_are_noticed(tmp_path):
  venv = tmp_path / "venv"
  make_fake_venv(venv, horovod="2.18.1")
  stamp_fake_venv(venv, ["base", "horovod"])
  assert setup_env.lacking_parts(venv, TF, ["base", "horovod"]) == [
      "base", "horovod"]


def test_part_key_depends_on_tensorflow_and_files(monkeypatch, tmp_path):
  keys = {setup_env.part_key(part, tensorflow)
          for part in setup_env.PARTS for tensorflow in (TF, "2.18.1")}
  assert len(keys) == 6
  (tmp_path / "dev.txt").write_text("ruff==0\n")
  monkeypatch.setitem(setup_env.PARTS, "dev", (tmp_path / "dev.txt",))
  assert setup_env.part_key("dev", TF) not in keys


def test_set_up_of_ready_environment_runs_nothing(tmp_path, monkeypatch):
  venv = tmp_path / "venv"
  make_fake_venv(venv)
  stamp_fake_venv(venv)
  monkeypatch.setattr(setup_env, "run_step", None)
  setup_env.set_up(venv, TF, ["base"], 1)
  assert not venv.with_name("venv.log").exists()


# --- versions --------------------------------------------------------------

@pytest.mark.parametrize("tensorflow, python, problem", [
    ("2.18", "3.11", "all three numbers: TF=2.21.0"),
    ("2.14.1", "3.11", "supported range, 2.15 to 2.21"),
    ("2.21.0", "3.9", "runs on Python 3.10 to 3.13.*TF=2.20.0"),
    ("2.15.1", "3.12", "PYTHON=python3.11; or another.*TF=2.21.0"),
])
def test_versions_that_do_not_go_together_are_refused(
    monkeypatch, tensorflow, python, problem):
  monkeypatch.setattr(setup_env, "this_python", lambda: python)
  with pytest.raises(progress.StepError, match=problem):
    setup_env.check_versions(tensorflow)


def test_pins_agree_with_version_file():
  text = (ROOT / "requirements" / "base.txt").read_text()
  versions = setup_env.VERSIONS
  assert "mesh-tensorflow==%s\n" % versions["MESH_TENSORFLOW"] in text
  assert setup_env.constraints_file(versions["DEFAULT_TENSORFLOW"])
  assert len(install_horovod.SOURCE_SHA256) == hashlib.sha256().digest_size * 2


# --- steps -----------------------------------------------------------------

def test_failed_step_shows_end_and_path_of_log(tmp_path, capsys):
  log = tmp_path / "log"
  with pytest.raises(progress.StepError) as caught:
    progress.run_step("breaking", ["sh", "-c", "echo why; exit 3"], log)
  text = str(caught.value)
  assert "exit code 3: breaking" in text
  assert "| why" in text and str(log) in text
  assert capsys.readouterr().out == "meshkeras: breaking ...\n"
