"""predict, evaluate and fit at any number of rows and any batch size."""

import numpy as np
import pytest

import meshkeras as mk
from meshkeras import layers

RANDOM = np.random.RandomState(3)
X = RANDOM.standard_normal([11, 4]).astype(np.float32)
Y = RANDOM.standard_normal([11, 8]).astype(np.float32)
WEIGHTS = RANDOM.uniform(0.5, 2.0, 11)
LAYOUTS = {"": "", "a:2": "batch:a", "a:4": "batch:a",
           "a:4,b:2": "batch:a,y:b"}
SIZES = [(rows, batch) for rows in (1, 2, 3, 5, 11) for batch in (1, 3, 32)]


def compiled(mesh):
  mk.set_random_seed(5)
  model = mk.Sequential([
      mk.Input((4,), dims=("x",)), layers.BatchNormalization(),
      layers.Dropout(0.2), layers.Dense(8, dim="y")])
  model.compile("sgd", "mse", metrics=["mae"], weighted_metrics=["mae"],
                mesh=mk.Mesh(mesh, simulate=True), layout=LAYOUTS[mesh])
  return model


@pytest.fixture(scope="module")
def models():
  return {mesh: compiled(mesh) for mesh in LAYOUTS}


def expected_logs(prediction, y, weights):
  error = (prediction - y).astype(np.float64)
  weight = weights[:, None] * np.ones_like(error)
  return [(error ** 2 * weight).sum() / error.size, np.abs(error).mean(),
          (np.abs(error) * weight).sum() / weight.sum()]


@pytest.mark.parametrize("mesh", LAYOUTS)
@pytest.mark.parametrize("num_rows,batch_size", SIZES)
def test_predict_and_evaluate_are_exact(models, mesh, num_rows, batch_size):
  x, y, weights = X[:num_rows], Y[:num_rows], WEIGHTS[:num_rows]
  options = dict(batch_size=batch_size, verbose=0)
  wanted = models[""].predict(X, verbose=0)[:num_rows]
  found = models[mesh].predict(x, **options)
  assert found.shape == (num_rows, 8)
  np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(
      models[mesh].evaluate(x, y, sample_weight=weights, **options),
      expected_logs(wanted, y, weights), rtol=1e-5)


@pytest.mark.parametrize("num_rows,batch_size", [(1, 32), (3, 2), (11, 3)])
def test_fit_equals_one_process(num_rows, batch_size):
  results = []
  for mesh in ("", "a:4", "a:4,b:2"):
    model = compiled(mesh)
    history = model.fit(
        X[:num_rows], Y[:num_rows], epochs=2, batch_size=batch_size,
        verbose=0).history
    results.append((history, model.get_weights(), model.iterations))
  for history, weights, iterations in results[1:]:
    assert iterations == 2 * -(-num_rows // batch_size)
    for name, values in results[0][0].items():
      np.testing.assert_allclose(history[name], values, rtol=1e-4)
    for one, other in zip(weights, results[0][1]):
      np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
