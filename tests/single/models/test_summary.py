"""The table of `model.summary()`: its numbers and its width."""

import pytest

from meshkeras.mesh import Layout, Mesh
from meshkeras.models.summary import (
  LayerRow,
  TrafficRow,
  VariableRow,
  format_bytes,
  summary_text,
)

MESH = Mesh("data:2,model:2")
LAYOUT = Layout("batch:data,hidden:model")
LAYERS = [
    LayerRow("dense", "Dense", (("batch", 128), ("hidden", 4096))),
    LayerRow("norm", "BatchNormalization",
             (("batch", 128), ("hidden", 4096)))]
KERNEL = VariableRow("dense/kernel", (("in", 1024), ("hidden", 4096)), 4)
VARIABLES = [
    KERNEL,
    KERNEL._replace(name="dense/kernel/adam_m", trainable=False, role="slot"),
    KERNEL._replace(name="dense/kernel/adam_v", trainable=False, role="slot"),
    VariableRow("norm/mean", (("hidden", 4096),), 4, trainable=False),
    VariableRow("out/kernel", (("hidden_in", 4096), ("classes", 10)), 2),
    VariableRow("scale", (), 4)]

EXPECTED = """\
Sequential 'net' on mesh data:2,model:2 with layout batch:data,hidden:model

layer  kind                output dims
-------------------------------------------------
dense  Dense               batch=128, hidden=4096
norm   BatchNormalization  batch=128, hidden=4096

weight        dims                layout        shape         slice         bytes here  train
---------------------------------------------------------------------------------------------
dense/kernel  in=1024,            hidden:model  (1024, 4096)  (1024, 2048)     8.00 MB  yes
              hidden=4096
norm/mean     hidden=4096         hidden:model  (4096)        (2048)           8.00 KB  no
out/kernel    hidden_in=4096,     replicated    (4096, 10)    (4096, 10)       80.0 KB  yes
              classes=10
scale         (scalar)            replicated    ()            ()                   4 B  yes

parameters            4,239,361 (4,235,265 trainable, 4,096 not)
split over processes  99.0% of the parameters
weights               8.09 MB per process, 16.1 MB in one process
optimizer slots       16.0 MB per process, 32.0 MB in one process

traffic per training step  collectives  bytes per process
---------------------------------------------------------
allreduce over data                  4            8.08 MB
alltoall over model                  1             512 KB
total                                5            8.58 MB"""  # noqa: E501

TRAFFIC = [TrafficRow("allreduce over data", 4, 8472580),
           TrafficRow("alltoall over model", 1, 2 ** 19)]


def test_summary_shows_every_number():
  text = summary_text("Sequential 'net'", MESH, LAYOUT, LAYERS, VARIABLES,
                      TRAFFIC, width=93)
  assert text == EXPECTED


def test_summary_without_split_or_traffic():
  text = summary_text("M", Mesh(""), Layout(""), [], VARIABLES, [])
  assert text.startswith("M on mesh of one processor with layout none\n")
  assert "0.0% of the parameters" in text
  assert text.endswith("traffic per training step: none")
  assert "traffic" not in summary_text("M", Mesh(""), Layout(""), [], [])


@pytest.mark.parametrize("width", [70, 79, 100])
def test_summary_wraps_long_names_without_losing_a_letter(width):
  name = "a_long_name_that_someone_chose/with_a_scope/" + "x" * 90
  dims = (("another_long_dimension_name", 4096), ("hidden", 4096))
  rows = [VariableRow(name, dims, 4)]
  lines = summary_text("M", MESH, LAYOUT, [], rows, width=width).split("\n")
  rule = next(number for number, line in enumerate(lines) if "---" in line)
  table = lines[rule + 1:lines.index("", rule)]
  assert max(map(len, table)) <= width
  column = lines[2].index("dims")
  assert "".join(line[:column].strip() for line in table) == name


@pytest.mark.parametrize("num_bytes, text", [
    (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KB"), (10230, "9.99 KB"),
    (10240, "10.0 KB"), (1023 * 1024, "1.00 MB"), (5 * 2 ** 40, "5.00 TB"),
    (5000 * 2 ** 40, "5000 TB")])
def test_format_bytes_keeps_three_digits(num_bytes, text):
  assert format_bytes(num_bytes) == text
