"""What several tests share."""

import contextlib
import itertools
from typing import NamedTuple

import numpy as np

from meshkeras.mesh import Layout, Mesh
from meshkeras.store import SimulatedMeshImpl
from meshkeras.upstream import mtf, tf


class CountingMeshImpl(SimulatedMeshImpl):
  """A simulated mesh that records every collective it lowers.

  `calls` is a list of (kind, axis names); `mute()` stops the recording.
  """

  def __init__(self, *args, **kwargs):
    super().__init__(*args, **kwargs)
    self.calls = []
    self._muted = False

  @contextlib.contextmanager
  def mute(self):
    self._muted, before = True, self._muted
    yield
    self._muted = before

  def _count(self, kind, mesh_axes):
    axes = tuple(self.shape[axis].name for axis in mesh_axes
                 if axis is not None and self.shape[axis].size > 1)
    if axes and not self._muted:
      self.calls.append((kind, axes))

  def allreduce(self, x, mesh_axes, reduction_fn_string):
    self._count(reduction_fn_string, mesh_axes)
    return super().allreduce(x, mesh_axes, reduction_fn_string)

  def allconcat(self, x, mesh_axis, concat_axis, stack=False):
    self._count("allconcat", [mesh_axis])
    return super().allconcat(x, mesh_axis, concat_axis, stack)

  def alltoall(self, x, mesh_axis, split_axis, concat_axis):
    self._count("alltoall", [mesh_axis])
    return super().alltoall(x, mesh_axis, split_axis, concat_axis)

  def fetch_ranges(self, x, mesh_axis, *args, **kwargs):
    self._count("fetch", [mesh_axis])
    return super().fetch_ranges(x, mesh_axis, *args, **kwargs)

  def return_ranges(self, dy, mesh_axis, *args, **kwargs):
    self._count("return", [mesh_axis])
    return super().return_ranges(dy, mesh_axis, *args, **kwargs)


class MeshCase(NamedTuple):
  """One graph on one mesh; see `run_cases`."""

  build: object
  inputs: tuple
  mesh: str = ""
  layout: str = ""
  gradients: bool = True
  step: int = 0


class MeshResult(NamedTuple):
  """What a MeshCase gave, as NumPy arrays.

  outputs: the full outputs.
  gradients: for each input, the full gradient of sum(grad_ys * outputs),
    None for an input without one.
  grad_ys: the gradients fed in: standard normal, the same for every mesh.
  collectives: (kind, axis names) of every collective lowered for outputs
    and gradients, the reduction of sums for export left out.
  """

  outputs: list
  gradients: list
  grad_ys: list
  collectives: list


def run_on_mesh(build, inputs, mesh="", layout="", gradients=True, step=0):
  """Builds a graph, runs it on a simulated mesh and returns a MeshResult.

  Args:
    build: function (mtf.Mesh, *mtf.Tensor) -> mtf.Tensor or a sequence.
    inputs: sequence of (array, "names of its dims").
    mesh, layout: as Mesh and Layout take them.
    gradients: whether to differentiate the floating-point outputs.
    step: value of the implementation's step.

  Example:
    >>> result = run_on_mesh(
    ...     lambda mesh, x: mtf.reduce_sum(x), [(np.ones([4]), "batch")],
    ...     "data:2", "batch:data")
    >>> float(result.outputs[0]), result.gradients[0].shape
    (4.0, (4,))
  """
  return run_cases([
      MeshCase(build, tuple(inputs), mesh, layout, gradients, step)])[0]


def run_cases(cases):
  """Returns a MeshResult per MeshCase, all run by one session call."""
  with tf.Graph().as_default() as graph:
    feeds, fetches, collectives = {}, [], []
    for number, case in enumerate(cases):
      with tf.variable_scope("case_%d" % number):
        impl, fetch = _build_case(case, feeds)
      fetches.append(fetch)
      collectives.append(impl.calls)
    with tf.Session(graph=graph) as session:
      values = session.run(fetches, feeds)
  results = []
  for case, value, calls in zip(cases, values, collectives):
    gradients = [value["gradients"].get(i) for i in range(len(case.inputs))]
    results.append(MeshResult(
        value["outputs"], gradients, value["grad_ys"], calls))
  return results


def layouts_of(names, ways=(2, 4)):
  """Returns [(mesh, layout)]: none, each dim by itself, each pair of dims.

  Args:
    names: names of the dims, apart by spaces.
    ways: sizes of the axis for the dims by themselves; pairs are on 2 x 2,
      the earlier dim on the first axis.

  Example:
    >>> layouts_of("x y", ways=[2])
    [('', ''), ('a:2', 'x:a'), ('a:2', 'y:a'), ('a:2,b:2', 'x:a,y:b')]
  """
  names = names.split()
  found = [("", "")]
  found += [("a:%d" % n, "%s:a" % name) for n in ways for name in names]
  found += [("a:2,b:2", "%s:a,%s:b" % pair)
            for pair in itertools.combinations(names, 2)]
  return found


def reference(fn, arrays, grad_ys=()):
  """Returns (outputs, gradients) of plain TensorFlow, as NumPy arrays.

  Args:
    fn: function (*tf.Tensor) -> tf.Tensor or a sequence.
    arrays: its inputs.
    grad_ys: as in MeshResult; none for no gradients.
  """
  with tf.Graph().as_default() as graph:
    xs = [tf.constant(array) for array in arrays]
    ys = fn(*xs)
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    floating = [y for y in ys if y.dtype.is_floating]
    gradients = [None] * len(xs)
    if len(grad_ys):
      gradients = tf.gradients(
          floating, xs, [tf.constant(g) for g in grad_ys])
    wanted = {i: tf.convert_to_tensor(g)
              for i, g in enumerate(gradients) if g is not None}
    with tf.Session(graph=graph) as session:
      outputs, found = session.run([ys, wanted])
  return outputs, [found.get(i) for i in range(len(xs))]


def check_layouts(build, fn, inputs, layouts, rtol=1e-5, atol=1e-5):
  """Checks build on every layout against plain TensorFlow.

  Args:
    build: as for `run_on_mesh`.
    fn: as for `reference`, on the same arrays.
    inputs: as for `run_on_mesh`.
    layouts: [(mesh, layout)].
    rtol, atol: tolerances.

  Returns: list of MeshResult.
  """
  results = run_cases([
      MeshCase(build, tuple(inputs), mesh, layout)
      for mesh, layout in layouts])
  outputs, gradients = reference(
      fn, [array for array, _ in inputs], results[0].grad_ys)
  for (mesh, layout), result in zip(layouts, results):
    told = "mesh %r, layout %r" % (mesh, layout)
    for wanted, found in zip(outputs, result.outputs):
      _assert_close(found, wanted, rtol, atol, told)
      assert found.dtype == wanted.dtype, told
    for wanted, found in zip(gradients, result.gradients):
      assert (wanted is None) == (found is None), told
      if wanted is not None:
        _assert_close(found, wanted, rtol, atol, told + ", gradient")
  return results


def _assert_close(found, wanted, rtol, atol, told):
  """As NumPy's, also of bfloat16, which older NumPy cannot compare."""
  found, wanted = [
      a.astype(np.float32) if a.dtype.kind == "V" else a
      for a in (np.asarray(found), np.asarray(wanted))]
  np.testing.assert_allclose(found, wanted, rtol, atol, err_msg=told)


def _build_case(case, feeds):
  """Returns (mesh implementation, nested structure to fetch)."""
  graph = mtf.Graph()
  mesh = mtf.Mesh(graph, "mesh")
  xs = [_import(mesh, array, names, feeds) for array, names in case.inputs]
  ys = case.build(mesh, *xs)
  ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
  grad_ys, grad_xs = [], [None] * len(xs)
  floating = [y for y in ys if y.dtype.is_floating]
  if case.gradients and floating:
    random = np.random.RandomState(7)
    grad_ys = [
        _import(mesh, random.standard_normal(y.shape.to_integer_list).astype(
            y.dtype.as_numpy_dtype), y.shape, feeds) for y in floating]
    grad_xs = mtf.gradients(floating, xs, grad_ys)
  impl = CountingMeshImpl(
      Mesh(case.mesh, simulate=True), Layout(case.layout), store=None,
      step=tf.constant(case.step, tf.int64))
  lowering = mtf.Lowering(graph, {mesh: impl}, autostack=False)
  fetched = [y for y in grad_xs if y is not None]
  for x in ys + fetched:
    if not isinstance(lowering.tensors[x], mtf.LazyAllreduceSum):
      lowering.tensors[x].to_laid_out_tensor()
  with impl.mute():
    export = lowering.export_to_tf_tensor
    return impl, {
        "outputs": [export(y) for y in ys],
        "gradients": {i: export(g) for i, g in enumerate(grad_xs)
                      if g is not None},
        "grad_ys": [export(g) for g in grad_ys]}


def _import(mesh, array, names, feeds):
  array = np.asarray(array)
  if isinstance(names, mtf.Shape):
    shape = names
  else:
    shape = mtf.Shape([mtf.Dimension(name, size) for name, size
                       in zip(names.split(), array.shape)])
  placeholder = tf.placeholder(array.dtype, array.shape)
  feeds[placeholder] = array
  return mtf.import_tf_tensor(mesh, placeholder, shape)
