"""apply_update: resource variables are changed in place, slice by slice."""

import numpy as np

from meshkeras import ops
from meshkeras.mesh import Layout, Mesh
from meshkeras.store import SimulatedMeshImpl, VariableStore
from meshkeras.upstream import mtf, tf

FULL = np.arange(32, dtype=np.float32).reshape(4, 8)
X = np.random.RandomState(0).standard_normal([6, 4]).astype(np.float32)


def momentum(variables, slices):
  weight, slot = variables
  gradient, rate = slices
  return tf.raw_ops.ResourceApplyMomentum(
      var=weight.handle, accum=slot.handle, lr=rate, grad=gradient,
      momentum=tf.constant(0.5))


def run_update(mesh_text, layout_text, num_steps):
  """Returns weight and slot after steps of momentum on sum(x @ w)."""
  mesh, layout = Mesh(mesh_text, simulate=True), Layout(layout_text)
  with tf.Graph().as_default() as tf_graph, tf.Session() as session:
    store = VariableStore(
        mesh, layout, range(mesh.size), tf_graph, session, seed=0)
    graph = mtf.Graph()
    mtf_mesh = mtf.Mesh(graph, "mesh")
    with store.creating_for_mesh_tensorflow():
      weight, slot = (
          mtf.get_variable(
              mtf_mesh, name, mtf.Shape([mtf.Dimension("in", 4),
                                         mtf.Dimension("out", 8)]),
              initializer=tf.zeros_initializer(), trainable=name == "w")
          for name in ("w", "slot"))
    x = mtf.import_tf_tensor(
        mtf_mesh, tf.constant(X), mtf.Shape([mtf.Dimension("batch", 6),
                                             mtf.Dimension("in", 4)]))
    rate = mtf.import_tf_tensor(mtf_mesh, tf.constant(0.1), mtf.Shape([]))
    loss = mtf.reduce_sum(ops.matmul(x, weight, "in", "out"))
    gradient, = mtf.gradients([loss], [weight])
    update = ops.apply_update(
        [weight.operation, slot.operation], [gradient, rate], momentum)
    assert update.outputs == [] and not update.has_gradient
    assert [v.name for v in update.variables] == ["w", "slot"]
    impl = SimulatedMeshImpl(
        mesh, layout, store=store, step=tf.constant(0, tf.int64))
    lowering = mtf.Lowering(graph, {mtf_mesh: impl}, autostack=False)
    store.scatter("w", FULL)
    store.scatter("slot", 0 * FULL)
    for _ in range(num_steps):
      session.run(lowering.operations[update])
    return store.gather("w"), store.gather("slot")


def test_update_runs_on_the_slices_at_every_layout():
  gradient = np.repeat(X.sum(0)[:, None], 8, 1)
  for mesh, layout in (("", ""), ("a:2", "batch:a"), ("a:2", "in:a"),
                       ("a:2,b:2", "batch:a,out:b"),
                       ("a:2,b:2", "in:b,out:a")):
    weight, slot = run_update(mesh, layout, 2)
    np.testing.assert_allclose(slot, 1.5 * gradient, 1e-5, 1e-5)
    np.testing.assert_allclose(
        weight, FULL - 0.1 * (1 + 1.5) * gradient, 1e-5, 1e-5)
