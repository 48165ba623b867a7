"""Model: what the user holds."""

import copy
import inspect

import numpy as np

from meshkeras import losses, optimizers
from meshkeras import metrics as metrics_lib
from meshkeras.errors import (
  ArgumentError,
  DimensionError,
  OrderError,
  near_names,
)
from meshkeras.layers import context
from meshkeras.layers.context import CallContext
from meshkeras.layers.input import Input
from meshkeras.layers.layer import Layer, name_layers
from meshkeras.mesh import Layout, Mesh
from meshkeras.mesh.layout import check_layout
from meshkeras.mesh.process_sets import current_job
from meshkeras.mesh.together import on_every_process
from meshkeras.models import fitting, saving_methods, seeds
from meshkeras.models.program import TRAIN, Program
from meshkeras.models.runtime import Runtime
from meshkeras.store.variable_store import variables_without_masters
from meshkeras.upstream import mtf, tf


class Model(fitting.Fitting, saving_methods.Saving):
  """Layers with a loss and an optimizer, on a mesh with a layout.

  Subclass it: make layers in `__init__`, use them in `call(x)`. Every
  method is called on every process and returns the same on all of them.

  Args:
    input: Input, or None to take it from the first data.
    name: what messages call it.

  Raises:
    ArgumentError: input is something else.

  Example:
    >>> from meshkeras import layers
    >>> class Doubler(Model):
    ...   def __init__(self):
    ...     super().__init__(Input((4,), dims=("features",)))
    ...     self.dense = layers.Dense(2, dim="out")
    ...   def call(self, x, training=False):
    ...     return self.dense(x)
    >>> Doubler().build().count_params()
    10
  """

  def __init__(self, input=None, name=None):  # pylint: disable=redefined-builtin
    if input is not None and not isinstance(input, Input):
      raise ArgumentError(
          "%s: input=%r given; accepted is an Input or None. Give "
          "meshkeras.Input(shape, dims=names)."
          % (type(self).__name__, input))
    self.input = input
    self.name = name or type(self).__name__.lower()
    self.output_shape = None
    self.loss = None
    self.optimizer = None
    self.stop_training = False
    self.forget_training()
    self._metrics = []
    self._compiled = None
    self._runtime = None
    self._programs = {}
    self._calls = []
    self._tensors = []
    self._first_layers = []

  # Layers and weights

  @property
  def layers(self):
    """Layers kept in attributes, in the order made."""
    return Layer.sublayers.fget(self)

  def call(self, x, training=False):
    """Returns the output for `x`; a subclass defines it.

    Raises:
      ArgumentError: the class does not.
    """
    raise ArgumentError(
        "%s: the class defines no call. Define call(self, x, "
        "training=False)." % type(self).__name__)

  def forward(self, x):
    """Returns the output [batch, ...] for the input [batch, ...].

    Raises:
      DimensionError: `call` returned no tensor whose first dim is the batch.
    """
    training = context.current().training
    takes_training = "training" in inspect.signature(self.call).parameters
    y = self.call(x, training=training) if takes_training else self.call(x)
    if not isinstance(y, mtf.Tensor) or (
        y.shape.dims[:1] != x.shape.dims[:1]):
      raise DimensionError(
          "%s: call must return one tensor whose first dimension is the "
          "batch; it returned %s." % (self.name, y))
    return y

  @property
  def built(self):
    return self.output_shape is not None

  def build(self):
    """Makes the weights' descriptions and the output's shape; returns self.

    Raises:
      OrderError: the model has no Input yet.
    """
    if self.built:
      return self
    if self.input is None:
      raise OrderError(
          "%s: the shape of the input is not known yet. Give the model a "
          "meshkeras.Input, or call fit first." % self.name)
    name_layers(self.layers)
    self._trace(batch_size=1)
    return self

  def _trace(self, batch_size):
    """Calls the layers on a scratch graph, for shapes and layout checks."""
    with tf.Graph().as_default(), variables_without_masters():
      graph = mtf.Graph()
      mesh = mtf.Mesh(graph, "scratch")
      x = mtf.zeros(mesh, self.input.batched(batch_size),
                    tf.as_dtype(self.input.dtype))
      with CallContext(mesh, training=True) as running:
        output = self.forward(x)
      self._calls = [
          (call.layer, tuple(call.output.shape.dims[1:]))
          for call in running.calls if call.layer in self.layers]
      self._first_layers = [
          call.layer for call in running.calls if call.input is x]
      self._tensors = _labelled_tensors(graph, running)
      self.output_shape = output.shape

  def check_input(self, rows):
    """Returns None, or what is wrong with values of the input."""
    problems = (layer.check_input(rows) for layer in self._first_layers)
    return next((text for text in problems if text), None)

  @property
  def weights(self):
    return [w for layer in self.layers for w in layer.weights]

  @property
  def trainable_weights(self):
    return [w for layer in self.layers for w in layer.trainable_weights]

  @property
  def non_trainable_weights(self):
    trainable = self.trainable_weights
    return [w for w in self.weights if w not in trainable]

  @property
  def trainable_names(self):
    return {w.name for w in self.trainable_weights}

  def count_params(self):
    """Returns the number of elements of all weights' full values."""
    self.build()
    return sum(w.size for w in self.weights)

  # Compiling

  @on_every_process
  def compile(self, optimizer=None, loss=None, metrics=None,
              weighted_metrics=None, mesh=None, layout=None, **unknown):
    """Says how to train, and on which mesh with which layout.

    Weights that exist keep their values, also on another mesh.

    Args:
      optimizer: name or Optimizer; None if the model is not to be trained.
      loss: name, Loss, or function (y_true, y_pred) -> mtf.Tensor.
      metrics: list of names, Metric or functions; every row counts once.
      weighted_metrics: the same, weighted by the sample weights.
      mesh: Mesh or text such as "data:2,model:2"; None means one axis,
        "data", over all processes.
      layout: Layout or text such as "batch:data,hidden:model"; None means
        "batch:data" if the mesh has an axis "data", else nothing split.

    Called by: every process.

    Raises:
      MeshError: the mesh needs another number of processes.
      LayoutError: a rule does not fit the model; all faults in one report.
      ArgumentError: an unknown keyword, loss, metric or optimizer.
    """
    if unknown:
      name = sorted(unknown)[0]
      raise ArgumentError(
          "compile: keyword %r given, which it does not accept; %s Correct "
          "or remove it." % (name, near_names(name, (
              "optimizer", "loss", "metrics", "weighted_metrics", "mesh",
              "layout"))))
    job = current_job()
    mesh = Mesh(mesh if mesh is not None else "data:%d" % job.size)
    if layout is None:
      layout = "batch:data" if "data" in mesh.axis_names else ""
    layout = Layout(layout)
    job.check_mesh(mesh)
    optimizer = None if optimizer is None else optimizers.get(optimizer)
    loss = None if loss is None else losses.get(loss)
    metrics = _metric_list(metrics, False) + _metric_list(
        weighted_metrics, True)
    self._compiled = (mesh, layout)
    if self.input is not None:
      self.build()
      self._check_layout()
    self.optimizer, self.loss, self._metrics = optimizer, loss, metrics
    self._programs = {}
    self.forget_training()
    if self._runtime is not None:
      self._move(mesh, layout)

  def _check_layout(self):
    mesh, layout = self._compiled
    axis = layout.axis_of("batch")
    ways = mesh.axis_size(axis) if axis in mesh.axis_names else 1
    self._trace(batch_size=ways)
    check_layout(layout, mesh, self._tensors, padded_dims=("batch",))

  def _move(self, mesh, layout):
    """Keeps the weights' values when the model is compiled again."""
    old = self._runtime
    old.store.drop_slots()
    if (old.mesh, old.layout) == (mesh, layout):
      return
    self._runtime = Runtime(mesh, layout, old.seed)
    self._allocate()
    for name in old.store.names():
      if old.store[name].initialized:
        self._runtime.store.scatter(name, old.store.gather(name))
    old.close()

  @property
  def runtime(self):
    """Where the model runs, made on first use; its weights have values.

    Raises:
      OrderError: the model is not compiled or has no Input yet.
    """
    runtime = self.runtime_to_load()
    runtime.store.initialize()
    return runtime

  def runtime_to_load(self, seed=None):
    """As `runtime`, but its weights may still be without values.

    Args:
      seed: of a runtime that is made now; None for the one in force.

    Raises:
      OrderError: as `runtime`.
    """
    if self._compiled is None:
      raise OrderError(
          "%s: not compiled, so there is no mesh, layout or loss. Call "
          "compile before this." % self.name)
    if self._runtime is None:
      self.build()
      mesh, layout = self._compiled
      self._runtime = Runtime(
          mesh, layout, seeds.current_seed() if seed is None else seed)
      self._allocate()
    return self._runtime

  def _allocate(self):
    for weight in self.weights:
      self._runtime.store.create(
          weight.name, weight.dims, weight.dtype, weight.initializer,
          trainable=weight.trainable, role="weight")

  def build_for(self, x):
    """Builds a model without Input for the shape of the first data."""
    if self.input is None:
      array = np.asarray(x)
      dtype = "int32" if array.dtype.kind in "iu" else "float32"
      self.input = Input(array.shape[1:], dtype=dtype)
      self.build()
      self._check_layout()

  def program(self, function, global_batch):
    """Returns the Program of a function for a global batch, made once."""
    ways = self.runtime.batch_ways
    padded = -(-global_batch // ways) * ways
    key = (function, padded)
    if key not in self._programs:
      self._programs[key] = Program(self, self.runtime, function, padded)
    return self._programs[key]

  def metrics_for(self, prediction_shape, target_shape):
    """Returns [(Metric, weighted)] for these shapes, named as in Keras."""
    # Copies, as names are given here and a user may give one object twice.
    found = [
        (copy.copy(metrics_lib.get(metric, prediction_shape, target_shape)),
         weighted) for metric, weighted in self._metrics]
    taken = {"loss"}
    for metric, weighted in found:
      if weighted and metric.name in taken:
        metric.name = "weighted_" + metric.name
      base, number = metric.name, 0
      while metric.name in taken:
        number += 1
        metric.name = "%s_%d" % (base, number)
      taken.add(metric.name)
    return found

  @property
  def programs(self):
    """{(function, padded batch): Program} built since compile."""
    return dict(self._programs)

  @property
  def iterations(self):
    """Training steps done."""
    return self.optimizer.iterations if self.optimizer else 0

  def collectives_per_step(self, batch_size=32):
    """Returns the collectives of one training step, in order.

    Args:
      batch_size: examples of the global batch.

    Returns: list of Collective; empty with one process.
    """
    return list(self.program(TRAIN, batch_size).collectives)

  def summary(self, print_fn=None):
    """Prints layers, weights with layout and slice, and what is split.

    Args:
      print_fn: called with the text instead of printing.
    """
    self.build()
    fitting.show_summary(self, self._calls, self._compiled, print_fn)


def _metric_list(metrics, weighted):
  if metrics is None:
    return []
  if not isinstance(metrics, (list, tuple)):
    raise ArgumentError(
        "compile: %s=%r given; accepted is a list, such as ['accuracy']. "
        "Put it in a list."
        % ("weighted_metrics" if weighted else "metrics", metrics))
  for metric in metrics:
    if isinstance(metric, str) and metric not in ("accuracy", "acc"):
      metrics_lib.get(metric)
  return [(metric, weighted) for metric in metrics]


def _labelled_tensors(graph, running):
  """Returns [(which tensor, its dims)] of a scratch graph."""
  labels = {}
  for call in running.calls:
    for operation in graph.operations[call.begin:call.end]:
      labels.setdefault(operation, call.layer.label)
  return [
      ("%s: %s" % (labels[operation], tensor.name)
       if operation in labels else tensor.name,
       [(d.name, d.size) for d in tensor.shape.dims])
      for operation in graph.operations for tensor in operation.outputs]
