"""Runs every operation of the Horovod mesh implementation."""

import numpy as np

from meshkeras import ops
from meshkeras.mesh import Layout, Mesh, host_collectives
from meshkeras.mesh.process_sets import current_job
from meshkeras.store import HorovodMeshImpl, SimulatedMeshImpl
from meshkeras.upstream import mtf, tf
from tests.parallel.collective_operations import SLICE, operations, slices_of

MESHES = {1: ["a:1"], 2: ["a:2"], 4: ["a:4", "a:2,b:2"]}
LAYOUT = "x:a,y:b"

# TensorFlow computes an operation of constants itself, on one process alone,
# unless it is kept from it: one operation of each kind is tried on constants.
CONSTANT_DTYPES = ("float32", "bfloat16", "bool")
OF_CONSTANTS = (
    "allreduce SUM over 0", "allreduce MAX over 0", "allconcat over 0 dim 0",
    "allconcat stacked over 0 dim 1", "alltoall over 0 split 0 concat 1",
    "reduce-scatter over 0 dim 0", "receive over 0 from the first",
    "shift over 0 by 1", "fetch over 0 dim 0, a halo",
    "return over 0 dim 0, a halo")


def sizes_of(mesh):
  return tuple(size for _, size in Mesh(mesh).axes)


def layout_of(mesh):
  names = Mesh(mesh).axis_names
  return Layout([rule for rule in Layout(LAYOUT).rules if rule[1] in names])


def simulated(mesh):
  """Returns (implementation, ranks) of a mesh inside this process."""
  impl = SimulatedMeshImpl(
      Mesh(mesh, simulate=True), layout_of(mesh), store=None,
      step=tf.constant(5, tf.int64))
  return impl, range(impl.mesh.size)


def distributed(mesh, function):
  """Returns (implementation, this rank alone) over Horovod processes."""
  job = current_job()
  mesh = Mesh(mesh)
  job.register(mesh)
  impl = HorovodMeshImpl(
      mesh, layout_of(str(mesh)), job, store=None,
      step=tf.placeholder_with_default(tf.constant(5, tf.int64), []),
      function=function)
  return impl, [job.rank]


def run_operation(operation, make_impl, num_processors, constant=False):
  """Returns {dtype: [slice of each local rank]} of an Operation."""
  dtypes = [d for d in operation.dtypes
            if not constant or d in CONSTANT_DTYPES]
  with tf.Graph().as_default() as graph:
    fetches, feeds = {}, {}
    impl, ranks = make_impl()
    for dtype in dtypes:
      parts = slices_of(num_processors, dtype)
      tensors = []
      for rank in ranks:
        tensors.append(
            tf.constant(parts[rank]) if constant
            else tf.placeholder(tf.as_dtype(dtype), SLICE))
        if not constant:
          feeds[tensors[-1]] = parts[rank]
      result = operation.lower(impl, impl.LaidOutTensor(tensors))
      fetches[dtype] = result.to_laid_out_tensor().tensor_list
    with tf.Session(graph=graph) as session:
      return session.run(fetches, feeds)


def cases(num_processes):
  if num_processes == 1:
    return {}
  found = {}
  for mesh in MESHES[num_processes]:
    known = operations(sizes_of(mesh))
    for name in list(known) + ["constant " + name for name in OF_CONSTANTS]:
      operation = known[name.replace("constant ", "")]
      function = "case%d" % len(found)
      found["%s, %s" % (mesh, name)] = (
          lambda mesh=mesh, operation=operation, function=function,
          constant=name not in known: run_operation(
              operation, lambda: distributed(mesh, function),
              num_processes, constant))
    found[mesh + ", places"] = (
        lambda mesh=mesh: run_places(lambda: distributed(mesh, "places")))
    found[mesh + ", random"] = (
        lambda mesh=mesh: run_random(lambda: distributed(mesh, "random")))
    found[mesh + ", half sums"] = (
        lambda mesh=mesh: run_half_sums(lambda: distributed(mesh, "halves")))
  found["host collectives"] = host_values
  return found


SHAPES = {
    "cut along the first": [("x", 8), ("z", 3)],
    "cut along the second": [("z", 3), ("x", 8)],
    "cut along both": [("y", 4), ("x", 8)],
    "whole": [("z", 3), ("v", 2)],
}


def full_value(dims, dtype="float32"):
  sizes = [size for _, size in dims]
  values = np.arange(np.prod(sizes)).reshape(sizes)
  return values % 2 == 0 if dtype == "bool" else values.astype(dtype)


def run_places(make_impl):
  """Returns {what: [per local rank]}: numbers, imports, broadcasts, Print."""
  with tf.Graph().as_default() as graph:
    impl, ranks = make_impl()
    mesh = mtf.Mesh(mtf.Graph(), "mesh")
    found = {"pnum": impl.laid_out_pnum().tensor_list}
    for axis in range(len(impl.shape)):
      found["pcoord %d" % axis] = impl.laid_out_pcoord(axis).tensor_list
    tensors = {}
    for name, dims in SHAPES.items():
      shape = mtf.Shape([mtf.Dimension(*dim) for dim in dims])
      for dtype in ("float32", "complex64", "bool"):
        value = tf.placeholder_with_default(
            tf.constant(full_value(dims, dtype)), shape.to_integer_list)
        x = mtf.zeros(mesh, shape, tf.as_dtype(dtype))
        laid_out = impl.import_tf_tensor(x, value).to_laid_out_tensor()
        key = "%s, %s" % (name, dtype)
        tensors["import " + key] = laid_out.tensor_list
        tensors["export " + key] = [impl.export_to_tf_tensor(x, laid_out)]
        new = mtf.Shape([mtf.Dimension("w", 2)] + shape.dims[::-1] + [
            d for d in [mtf.Dimension("y", 4)] if d not in shape.dims])
        tensors["broadcast " + key] = impl.broadcast_impl(
            laid_out, shape, new).tensor_list
      tensors["slice_num " + name] = impl.laid_out_slice_num(
          shape).to_laid_out_tensor().tensor_list
    laid_out = impl.LaidOutTensor([tf.constant(7.0)] * len(ranks))
    tensors["Print"] = impl.Print(
        laid_out, [laid_out], "seen by Print").tensor_list
    with tf.Session(graph=graph) as session:
      found.update(session.run(tensors))
  return found


def run_random(make_impl):
  """Returns the full values of every kind of random tensor."""
  with tf.Graph().as_default() as graph:
    impl, _ = make_impl()
    mtf_graph = mtf.Graph()
    mesh = mtf.Mesh(mtf_graph, "mesh")
    shape = mtf.Shape([mtf.Dimension(*d) for d in SHAPES["cut along both"]])
    made = {
        "uniform": ops.random_uniform(mesh, shape, "some"),
        "mask": ops.dropout_mask(mesh, shape, 0.3, "drop"),
        "upstream uniform": mtf.random_uniform(mesh, shape, minval=2.0,
                                               maxval=3.0),
        "upstream normal": mtf.random_normal(mesh, shape),
    }
    lowering = mtf.Lowering(mtf_graph, {mesh: impl}, autostack=False)
    fetches = {name: lowering.export_to_tf_tensor(x)
               for name, x in made.items()}
    with tf.Session(graph=graph) as session:
      return session.run(fetches)


def run_half_sums(make_impl):
  """Returns sums whose small terms are lost when added in half precision."""
  with tf.Graph().as_default() as graph:
    impl, ranks = make_impl()
    fetches = {}
    for dtype, large in (("bfloat16", 256), ("float16", 2048)):
      tensors = [
          tf.placeholder_with_default(
              tf.constant([large if rank == 0 else 1.0], dtype), [1])
          for rank in ranks]
      axes = list(range(len(impl.shape)))
      fetches[dtype] = impl.allreduce(
          impl.LaidOutTensor(tensors), axes, "SUM").tensor_list
    with tf.Session(graph=graph) as session:
      return session.run(fetches)


def host_values():
  """Returns what each host collective gives on this rank."""
  rank = current_job().rank
  text = np.arange(3 * rank, dtype=np.uint8)
  return {
      "sum": host_collectives.sum_over_processes([1.5, rank]),
      "bytes": host_collectives.gather_bytes(text),
      "objects": host_collectives.gather_objects({"rank": rank}),
      "chief": host_collectives.from_chief("said by %d" % rank),
      "none": host_collectives.gather_objects(None),
  }
