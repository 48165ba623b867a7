"""Mesh TensorFlow graphs and their gradients, over Horovod processes.

Each function of `FUNCTIONS` is written twice: in named dimensions and in
NumPy. All are linear in each input, so that central differences of the
NumPy form give its gradient to the last digits.
"""

from typing import NamedTuple

import numpy as np

from meshkeras import ops
from meshkeras.mesh import Layout, Mesh
from meshkeras.mesh.process_sets import current_job
from meshkeras.store import HorovodMeshImpl, SimulatedMeshImpl
from meshkeras.upstream import mtf, tf


class Function(NamedTuple):
  """build: (mtf.Mesh, *mtf.Tensor) -> mtf.Tensor; numpy: the same on arrays.

  inputs: "name=size ..." of each input.
  splits: what to split, as layouts over axes a (of all processes) or, where
    a layout names b too, over a 2 x 2 mesh.
  """

  build: object
  numpy: object
  inputs: tuple
  splits: tuple


def dims_of(text):
  """Returns [("x", 8), ...] of "x=8 ..."."""
  pairs = [word.split("=") for word in text.split()]
  return [(name, int(size)) for name, size in pairs]


def _reshaped(text):
  dims = dims_of(text)
  return (lambda mesh, x: ops.reshape(x, dims),
          lambda x: x.reshape([size for _, size in dims]))


def _shifted(offset, wrap):
  def numpy(x):
    result = np.roll(x, offset, axis=0)
    if not wrap:
      result[slice(0, offset) if offset > 0 else slice(offset, None)] = 0
    return result

  return (lambda mesh, x: mtf.shift(x, offset, x.shape.dims[0], wrap), numpy)


def _convolved(padding, strides):
  def build(mesh, x, w):
    return ops.conv2d(x, w, ("rows", "cols"), (strides, strides), padding,
                      "chin", mtf.Dimension("chout", 4))

  def numpy(x, w):
    if padding == "same":
      sizes = [-(-n // strides) for n in x.shape[1:3]]
      total = [max((m - 1) * strides + 3 - n, 0)
               for m, n in zip(sizes, x.shape[1:3])]
      x = np.pad(x, [(0, 0)] + [(t // 2, t - t // 2) for t in total]
                 + [(0, 0)])
    sizes = [(n - 3) // strides + 1 for n in x.shape[1:3]]
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    windows = windows[:, ::strides, ::strides][:, :sizes[0], :sizes[1]]
    return np.einsum("brckij,ijko->brco", windows, w)

  return build, numpy


FUNCTIONS = {
    "sum over one": Function(
        lambda mesh, x: mtf.reduce_sum(x, reduced_dim=x.shape.dims[0]),
        lambda x: x.sum(0), ("x=8 y=4",), ("x:a", "y:a", "x:a,y:b", "y:a,x:b")),
    "sum over all": Function(
        lambda mesh, x: mtf.reduce_sum(x), np.sum, ("x=8 y=4",),
        ("x:a", "x:a,y:b")),
    "broadcast": Function(
        lambda mesh, x: mtf.broadcast(
            x, [("z", 4), ("y", 4), ("x", 8)]),
        lambda x: np.broadcast_to(x.T, (4, 4, 8)), ("x=8 y=4",),
        ("x:a", "z:a", "x:a,z:b", "z:a,y:b")),
    "reshape merging": Function(
        *_reshaped("z=32"), ("x=8 y=4",),
        ("x:a,z:a", "y:a,z:a", "x:a", "z:a", "y:a,z:b", "x:a,y:b")),
    "reshape cutting": Function(
        *_reshaped("x=8 y=4"), ("z=32",),
        ("x:a,z:a", "y:a,z:a", "z:a,y:b", "x:a,y:b")),
    "reshape to another split": Function(
        *_reshaped("z=8 w=8"), ("x=8 y=8",),
        ("x:a,w:a", "y:a,z:a", "x:a,z:b", "x:a,y:b,z:b,w:a")),
    "einsum": Function(
        lambda mesh, x, w: mtf.einsum(
            [x, w], output_shape=[x.shape.dims[0], w.shape.dims[1]]),
        lambda x, w: x @ w, ("x=4 k=8", "k=8 y=4"),
        ("k:a", "x:a", "y:a", "x:a,k:b", "k:a,y:b", "x:a,y:b")),
    "matmul": Function(
        lambda mesh, x, w: ops.matmul(x, w, ["k"], ["y"]),
        lambda x, w: x @ w, ("x=4 k=8", "k=8 y=4"),
        ("k:a", "x:a", "y:a", "x:a,k:b", "k:a,y:b")),
    "gather": Function(
        lambda mesh, w: ops.gather(w, mtf.import_tf_tensor(
            mesh, tf.constant([3, 0, 3, 7]), mtf.Shape([("x", 4)])),
                                   mtf.Dimension("v", 8)),
        lambda w: w[[3, 0, 3, 7]], ("v=8 y=4",),
        ("v:a", "y:a", "x:a", "v:a,y:b", "x:a,v:b")),
    "maximum": Function(
        lambda mesh, x: mtf.reduce_max(x, reduced_dim=x.shape.dims[0]),
        lambda x: x.max(0), ("x=8 y=4",), ("x:a", "y:a", "x:a,y:b")),
}
for _offset in (1, -1, 3, -5):
  for _wrap in (True, False):
    FUNCTIONS["shift by %d%s" % (_offset, " wrapped" if _wrap else "")] = (
        Function(*_shifted(_offset, _wrap), ("x=8 y=2",),
                 ("x:a", "x:b,y:a") if abs(_offset) == 1 else ("x:a",)))
for _padding, _strides in (("same", 1), ("same", 2), ("valid", 1)):
  FUNCTIONS["convolution %s stride %d" % (_padding, _strides)] = Function(
      *_convolved(_padding, _strides),
      ("batch=2 rows=%d cols=%d chin=2" % (
          (6, 6) if _padding == "valid" else (8, 8)),
       "kr=3 kc=3 chin=2 chout=4"),
      ("rows:a", "cols:a", "rows:a,cols:b", "chin:a,rows:b")
      # Rows of the input and of the output divide by 2, not both by 4.
      if _padding == "same" else ("rows:a,cols:b", "rows:b,batch:a"))


def meshes_of(layout, num_processes):
  """Returns the text of the mesh for a layout, or None if it has none."""
  if ":b" in layout:
    return "a:2,b:2" if num_processes == 4 else None
  return "a:%d" % num_processes


def inputs_of(function):
  random = np.random.RandomState(11)
  return [random.standard_normal([size for _, size in dims_of(text)])
          for text in function.inputs]


def output_gradient(function):
  """Returns the gradient fed in at the output."""
  shape = np.shape(function.numpy(*inputs_of(function)))
  return np.random.RandomState(12).standard_normal(shape)


def run_function(function, make_impl):
  """Returns {"output": full value, "gradient 0": full value, ...}."""
  with tf.Graph().as_default() as graph:
    impl = make_impl()
    mtf_graph = mtf.Graph()
    mesh = mtf.Mesh(mtf_graph, "mesh")
    feeds = {}

    def imported(array, dims):
      placeholder = tf.placeholder(array.dtype, array.shape)
      feeds[placeholder] = array
      return mtf.import_tf_tensor(
          mesh, placeholder, mtf.Shape([mtf.Dimension(*d) for d in dims]))

    xs = [imported(array, dims_of(text)) for array, text in zip(
        inputs_of(function), function.inputs)]
    y = function.build(mesh, *xs)
    dy = imported(output_gradient(function),
                  [(d.name, d.size) for d in y.shape.dims])
    gradients = mtf.gradients([y], xs, [dy])
    lowering = mtf.Lowering(mtf_graph, {mesh: impl}, autostack=False)
    fetches = {"output": lowering.export_to_tf_tensor(y)}
    for number, gradient in enumerate(gradients):
      fetches["gradient %d" % number] = lowering.export_to_tf_tensor(gradient)
    with tf.Session(graph=graph) as session:
      return session.run(fetches, feeds)


def distributed(mesh, layout, function):
  job = current_job()
  mesh = Mesh(mesh)
  job.register(mesh)
  return HorovodMeshImpl(
      mesh, Layout(layout), job, store=None, step=tf.constant(0, tf.int64),
      function=function)


def simulated(mesh, layout):
  return SimulatedMeshImpl(
      Mesh(mesh, simulate=True), Layout(layout), store=None,
      step=tf.constant(0, tf.int64))


def named_cases(num_processes):
  """Returns [(name of the function, mesh, layout)]."""
  found = []
  for name, function in FUNCTIONS.items():
    for layout in function.splits:
      mesh = meshes_of(layout, num_processes)
      if mesh:
        found.append((name, mesh, layout))
  return found


def cases(num_processes):
  if num_processes == 1:
    return {}
  return {
      "%s, %s" % (name, layout): (
          lambda name=name, mesh=mesh, layout=layout, i=i: run_function(
              FUNCTIONS[name],
              lambda: distributed(mesh, layout, "gradient%d" % i)))
      for i, (name, mesh, layout) in enumerate(named_cases(num_processes))}
