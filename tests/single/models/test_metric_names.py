"""Names of metrics in logs."""

import numpy as np
import pytest

import meshkeras as mk
from meshkeras import layers

X = np.linspace(-1, 1, 20).reshape(10, 2).astype(np.float32)
WEIGHTS = np.arange(10, dtype=np.float32)


def test_one_object_given_twice_is_two_metrics():
  metric = mk.metrics.MeanSquaredError(name="mine")
  model = mk.Sequential([mk.Input((2,)), layers.Dense(2)])
  model.compile("sgd", "mse", metrics=[metric, metric],
                weighted_metrics=[metric])
  found = model.evaluate(X, 2 * X, sample_weight=WEIGHTS, verbose=0,
                         return_dict=True)
  squares = ((model.predict(X, verbose=0) - 2 * X) ** 2).mean(axis=1)
  assert found == {
      "loss": pytest.approx((squares * WEIGHTS).mean()),
      "mine": pytest.approx(squares.mean()),
      "mine_1": pytest.approx(squares.mean()),
      "weighted_mine": pytest.approx(
          (squares * WEIGHTS).sum() / WEIGHTS.sum())}
  assert metric.name == "mine"
