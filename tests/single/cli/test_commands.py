"""python -m meshkeras: inspect, verify, export, diff."""

import os

import numpy as np
import pytest
import safetensors.numpy
from absl import flags

from meshkeras.cli import main
from meshkeras.store import manifest
from tests.single.saving import small_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """(path, model) of a checkpoint on a mesh of 4."""
  path = str(tmp_path_factory.mktemp("cli") / "saved")
  model = small_model.make("d:2,m:2", "batch:d,hidden:m")
  small_model.fit(model, 1)
  model.save(path)
  return path, model


@pytest.fixture
def run(capsys):
  """Function (words) -> (exit code, stdout, stderr)."""
  def call(*words):
    code = main.run(flags.FLAGS(["meshkeras"] + [str(w) for w in words]))
    flags.FLAGS.unparse_flags()
    flags.FLAGS(["meshkeras", "--role=weight", "--nofiles"])
    flags.FLAGS["role"].value = None
    return (code, *capsys.readouterr())
  return call


def test_inspect_lists_variables_layout_and_files(saved, run):
  code, out, _ = run("inspect", saved[0])
  assert code == 0
  assert "mesh 'd:2,m:2', layout 'batch:d,hidden:m'" in out
  assert "step 5; place in the training: epoch 1, step 0 in it" in out
  row = next(line for line in out.splitlines()
             if line.startswith("first/kernel"))
  assert row.split("  ")[0] == "first/kernel"
  for word in ("trainable", "in=8, hidden=16", "float32", "hidden:m", "512"):
    assert word in row
  code, out, _ = run("inspect", saved[0], "--files")
  assert "[0:8, 8:16]" in out and " at byte " in out


def test_verify_finds_a_flipped_byte(saved, run, tmp_path):
  path, _ = saved
  assert run("verify", path)[0] == 0
  copy = tmp_path / "copy"
  os.mkdir(copy)
  for name in os.listdir(path):
    (copy / name).write_bytes((open(os.path.join(path, name), "rb")).read())
  part = manifest.read(path).variables["last/kernel"].slices[0]
  with open(copy / part.file, "r+b") as file:
    file.seek(part.offset)
    byte = file.read(1)
    file.seek(part.offset)
    file.write(bytes([byte[0] ^ 1]))
  code, _, err = run("verify", copy)
  assert code == 1 and part.file in err and "'last/kernel'" in err
  code, _, err = run("export", copy, tmp_path / "out.npz")
  assert code == 1 and os.listdir(tmp_path) == ["copy"]


def test_export_writes_full_values(saved, run, tmp_path):
  path, model = saved
  expected = small_model.variables(model)
  assert run("export", path, tmp_path / "o.safetensors")[0] == 0
  assert run("export", path, tmp_path / "o.npz", "--role=weight")[0] == 0
  found = safetensors.numpy.load_file(tmp_path / "o.safetensors")
  assert found.keys() == expected.keys()
  with np.load(tmp_path / "o.npz") as arrays:
    assert set(arrays) == {w.name for w in model.weights}
    for name in arrays:
      np.testing.assert_array_equal(arrays[name], expected[name])
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value)
  code, _, err = run("export", path, tmp_path / "o.bin")
  assert code == 2 and ".safetensors or .npz" in err


def test_diff_tells_values_names_and_dims(saved, run, tmp_path):
  path, model = saved
  code, out, _ = run("diff", path, path)
  assert (code, out) == (0, "equal\n")
  changed = model.get_weights()
  changed[0][3, 5] += 0.25
  model.set_weights(changed)
  model.save(str(tmp_path / "other"))
  code, out, _ = run("diff", path, tmp_path / "other")
  assert code == 1
  assert out == "first/kernel: 1 of 128 values differ, by at most 0.25\n"
  small_model.make(hidden=12).save_weights(str(tmp_path / "third"))
  code, out, _ = run("diff", path, tmp_path / "third")
  assert "in=8, hidden=16] float32 and [in=8, hidden=12" in out
  assert "only in %s: optimizer/" % path in out


def test_wrong_commands_print_the_usage(run, tmp_path):
  for words in ((), ("inspect",), ("look", tmp_path), ("diff", tmp_path)):
    code, _, err = run(*words)
    assert code == 2 and "python -m meshkeras COMMAND" in err
  code, _, err = run("inspect", tmp_path)
  assert code == 1 and "no meshkeras.json" in err
  (tmp_path / "file").write_text("text")
  code, _, err = run("verify", tmp_path / "file")
  assert code == 1 and "file: it is a file" in err


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_prints_the_usage(capsys, flag):
  with pytest.raises(SystemExit) as ended:
    main._parse(["meshkeras", "inspect", flag])
  assert ended.value.code == 0
  assert "python -m meshkeras COMMAND" in capsys.readouterr().out
