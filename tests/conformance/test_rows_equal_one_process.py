"""Every row at every layout of its own against one process."""

import json

import numpy as np
import pytest

import meshkeras as mk
from meshkeras import layers, losses, metrics, optimizers
from tests.conformance import rows, table

CELLS = [pytest.param(row, layout, id="%s-%s" % (row.name, layout))
         for row in table.ROWS for layout in row.layouts]
every_cell = pytest.mark.parametrize("row,layout", CELLS)
every_row = pytest.mark.parametrize("row", table.ROWS, ids=lambda r: r.name)


def both(row, layout):
  """Returns the Result in one process, and the one at the layout."""
  return rows.result_of(row), rows.result_of(row, layout)


def check_close(found, expected, rtol=1e-5, atol=2e-6, named=""):
  np.testing.assert_allclose(found, expected, rtol, atol, err_msg=named)
  assert np.shape(found) == np.shape(expected), named


def check_logs(found, expected, rtol):
  assert list(found) == list(expected)
  for name, values in expected.items():
    check_close(found[name], values, rtol, named=name)


@every_cell
def test_initial_weights_are_bit_equal(row, layout):
  one, here = both(row, layout)
  assert here.names == one.names
  for name, value, expected in zip(one.names, here.initial, one.initial):
    np.testing.assert_array_equal(value, expected, name)


@every_cell
def test_predictions_equal(row, layout):
  one, here = both(row, layout)
  assert len(here.predicted) == rows.NUM_ROWS
  check_close(here.predicted, one.predicted)


@every_cell
def test_evaluation_equals(row, layout):
  one, here = both(row, layout)
  check_logs(here.evaluated, one.evaluated, rtol=1e-5)


@every_cell
def test_loss_of_a_step_equals(row, layout):
  one, here = both(row, layout)
  check_logs(here.step_logs, one.step_logs, rtol=1e-5)


@every_cell
def test_a_step_changes_weights_equally(row, layout):
  one, here = both(row, layout)
  for name, initial, value, expected in zip(
      one.names, one.initial, here.stepped, one.stepped):
    change = np.abs(expected - initial).max()
    assert change > 0 or name not in one.trainable, name
    check_close(value - initial, expected - initial, 1e-4,
                1e-5 * change + 1e-7, named=name)


@every_cell
def test_history_equals(row, layout):
  one, here = both(row, layout)
  assert len(one.history["loss"]) == 2
  check_logs(here.history, one.history, rtol=1e-4)


@every_cell
def test_trained_weights_equal(row, layout):
  one, here = both(row, layout)
  for name, value, expected in zip(one.names, here.trained, one.trained):
    check_close(value, expected, 1e-4, 1e-5, named=name)


@every_cell
def test_summary_shows_layout_and_weights(row, layout):
  _, here = both(row, layout)
  words = here.summary.split()
  assert layout in words
  for name in here.names:
    # A name too long for its column goes on in the next line.
    assert any(name.startswith(word) for word in words if "/" in word), name


@every_row
def test_layers_survive_their_config(row):
  made = row.model()
  configs = [json.loads(json.dumps(layer.get_config()))
             for layer in made.layers]
  given = json.loads(json.dumps(made.input.get_config()))
  again = mk.Sequential([mk.Input.from_config(given)] + [
      type(layer).from_config(config)
      for layer, config in zip(made.layers, configs)]).build()
  assert [layer.get_config() for layer in again.layers] == configs
  assert [(w.name, w.dims, w.dtype, w.trainable) for w in again.weights] == [
      (w.name, w.dims, w.dtype, w.trainable) for w in made.weights]
  assert again.output_shape == made.output_shape
  assert again.input.get_config() == made.input.get_config()


@every_row
def test_loss_metrics_and_optimizer_survive_their_config(row):
  made = [(losses, row.loss()), (optimizers, row.optimizer())]
  made += [(metrics, metric) for metric in row.metrics()
           if not isinstance(metric, str)]
  for module, one in made:
    config = json.loads(json.dumps(one.get_config()))
    again = module.get(
        {"class_name": type(one).__name__, "config": config})
    assert type(again) is type(one)
    assert again.get_config() == config


def test_table_is_complete():
  used = set()
  for row in table.ROWS:
    used |= {type(layer) for layer in row.model().layers}
    used |= {type(row.loss()), type(row.optimizer())}
    used |= {type(metric) for metric in row.metrics()}
  bases = {layers.Layer, losses.Loss, metrics.Metric, optimizers.Optimizer}
  described = {
      losses.FunctionLoss: "tests/single/losses",
      metrics.FunctionMean: "tests/single/metrics",
      metrics.Mean: "tests/single/metrics"}
  for module, base in ((layers, layers.Layer), (losses, losses.Loss),
                       (metrics, metrics.Metric),
                       (optimizers, optimizers.Optimizer)):
    for name in module.__all__:
      public = getattr(module, name)
      if isinstance(public, type) and issubclass(public, base):
        assert public in used | bases | set(described), (
            "%s.%s: add a row that uses it to table.py"
            % (module.__name__, name))


def test_names_of_rows_differ():
  names = [row.name for row in table.ROWS]
  assert sorted(set(names)) == sorted(names)
