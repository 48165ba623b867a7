"""Runs layers on a simulated mesh, for tests of layers and optimizers."""

from typing import NamedTuple

import numpy as np

from meshkeras.layers import CallContext
from meshkeras.mesh import Layout, Mesh
from meshkeras.store import VariableStore
from meshkeras.upstream import mtf, tf
from tests.helpers import CountingMeshImpl


class LayerResult(NamedTuple):
  """What a layer gave, as full NumPy arrays.

  output: its output.
  dx: gradient of sum(dy * output) for the input, None for whole numbers.
  dweights: {weight name: the same for it}, trainable ones.
  initial: {weight name: initial value}.
  updated: {weight name: value after the layer's own updates}.
  collectives: (kind, axis names) of every collective lowered.
  """

  output: np.ndarray
  dx: np.ndarray
  dweights: dict
  initial: dict
  updated: dict
  collectives: list


def run_layer(layer, x, dims, mesh="", layout="", **options):
  """Returns the LayerResult of one call on a simulated mesh.

  Args:
    layer: Layer that is not built.
    x: NumPy array, the batch first.
    dims: "batch ..." names of its dims.
    mesh, layout: as Mesh and Layout take them.
    **options: of `_Run`.
  """
  with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
    return _Run(layer, np.asarray(x), dims, Mesh(mesh, simulate=True),
                Layout(layout), session, **options).result()


class _Run:
  """Graph, store and lowering of one call.

  Args:
    training: as in CallContext.
    weights: {name: full value} to set before.
    row_mask: NumPy [batch] or None.
    step: the implementation's step.
    seed: the store's.
  """

  def __init__(self, layer, x, dims, mesh, layout, session, **options):
    known = dict(training=True, weights=None, row_mask=None, step=0, seed=3)
    unknown = set(options) - set(known)
    if unknown:
      raise TypeError("unknown options %s" % sorted(unknown))
    known.update(options)
    self.layer = layer
    self.session = session
    self.feeds = {}
    self.store = VariableStore(
        mesh, layout, range(mesh.size), session.graph, session,
        known["seed"])
    self.impl = CountingMeshImpl(
        mesh, layout, store=self.store,
        step=tf.constant(known["step"], tf.int64))
    self.training = known["training"]
    self.values = known["weights"] or {}
    self._x, self._dims, self._row_mask = x, dims, known["row_mask"]

  def result(self):
    graph = mtf.Graph()
    mesh = mtf.Mesh(graph, "mesh")
    with self.store.creating_for_mesh_tensorflow():
      x = self._import(mesh, self._x, self._dims.split())
      mask = None
      if self._row_mask is not None:
        mask = self._import(
            mesh, np.asarray(self._row_mask, np.float32), ["batch"])
      context = CallContext(mesh, self.training, mask)
      with context:
        y = self.layer(x)
      trained = self.layer.trainable_weights
      weights = [w.read(mesh) for w in trained]
      random = np.random.RandomState(5)
      dy = self._import(mesh, random.standard_normal(
          y.shape.to_integer_list).astype(np.float32),
          y.shape.dimension_names)
      gradients = mtf.gradients([y], [x] + weights, [dy])
    lowering = mtf.Lowering(graph, {mesh: self.impl}, autostack=False)
    updates = [lowering.operations[update] for update in context.updates]
    initial = self._initialize()
    for tensor in [y] + [g for g in gradients if g is not None]:
      lowering.tensors[tensor].to_laid_out_tensor()
    collectives = list(self.impl.calls)
    fetches = [lowering.export_to_tf_tensor(y)] + [
        g if g is None else lowering.export_to_tf_tensor(g)
        for g in gradients]
    found = self.session.run(
        [f for f in fetches if f is not None], self.feeds)
    found = iter(found)
    output, dx, *dweights = [
        None if f is None else next(found) for f in fetches]
    self.session.run(updates, self.feeds)
    updated = {w.name: self.store.gather(w.name) for w in self.layer.weights}
    return LayerResult(
        output, dx, {w.name: g for w, g in zip(trained, dweights)}, initial,
        updated, collectives)

  def _initialize(self):
    self.store.initialize()
    initial = {name: self.store.gather(name) for name in self.store.names()}
    for name, value in self.values.items():
      self.store.scatter(name, value)
    return initial

  def _import(self, mesh, array, names):
    placeholder = tf.placeholder(array.dtype, array.shape)
    self.feeds[placeholder] = array
    shape = mtf.Shape([mtf.Dimension(n, s)
                       for n, s in zip(names, array.shape)])
    return mtf.import_tf_tensor(mesh, placeholder, shape)


def check_same(result, reference, rtol=2e-5, atol=2e-5):
  """Checks outputs, gradients and updates of two LayerResults."""
  np.testing.assert_allclose(
      result.output, reference.output, rtol=rtol, atol=atol)
  if reference.dx is not None:
    np.testing.assert_allclose(result.dx, reference.dx, rtol=rtol, atol=atol)
  assert list(result.dweights) == list(reference.dweights)
  for name, value in reference.dweights.items():
    np.testing.assert_allclose(
        result.dweights[name], value, rtol=rtol, atol=atol, err_msg=name)
  for name, value in reference.initial.items():
    np.testing.assert_array_equal(result.initial[name], value, name)
  for name, value in reference.updated.items():
    np.testing.assert_allclose(
        result.updated[name], value, rtol=rtol, atol=atol, err_msg=name)
