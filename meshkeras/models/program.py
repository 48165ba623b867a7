"""One function of a model, built in the one right order.

1. graph and inputs, 2. forward, 3. loss and metrics, 4. gradients,
5. updates, 6. lowering, 7. what a step returns, 8. initial values,
9. agreement of the processes, 10. the prepared call. Gradients and updates
come before the lowering because Mesh TF lowers only what its graph holds at
that moment; values come after it because only then the slices exist.
"""

import hashlib
import itertools
import warnings

import numpy as np

from meshkeras import ops
from meshkeras.errors import InternalError, ProcessSetError
from meshkeras.layers.context import CallContext
from meshkeras.mesh import host_collectives, slices
from meshkeras.mesh.dimension import format_dims
from meshkeras.upstream import lower, mtf, tf

TRAIN, EVALUATE, PREDICT = "train", "evaluate", "predict"

_DIFFERENT = (
    "%s: the processes have built different models, whose collectives would "
    "wait for each other for ever or mix up weights. First difference: "
    "rank 0 has %s, rank %d has %s. Build the same layers in the same order, "
    "with the same names and sizes, on every process: remove what depends on "
    "the rank.")


class Program:
  """Train, evaluate or predict for one size of the padded global batch.

  Args:
    model: has `input`, `forward(x)`, `loss`, `metrics_for(shape, shape)`,
      `optimizer` and `trainable_names`.
    runtime: Runtime.
    function: TRAIN, EVALUATE or PREDICT.
    padded_batch: rows of the padded global batch.

  Called by: every process, in the same order.

  Raises:
    ProcessSetError: the processes' collectives differ (B27).
  """

  def __init__(self, model, runtime, function, padded_batch):
    self._model = model
    self._runtime = runtime
    self._function = function
    self._name = "%s_%d" % (function, padded_batch)
    self.padded_batch = padded_batch
    with runtime.graph.as_default():
      self._build()

  def _build(self):
    store = self._runtime.store
    with tf.name_scope(self._name), store.creating_for_mesh_tensorflow():
      self._make_graph_and_inputs()                                      # 1
      self._call_layers()                                                # 2
      if self._function != PREDICT:
        self._add_loss_and_metrics()                                     # 3
      if self._function == TRAIN:
        self._add_gradients()                                            # 4
        self._add_updates()                                              # 5
      self._lowering = lower(self._graph, self._mesh, self._impl)        # 6
      self._collect_results()                                            # 7
    store.initialize()                                                   # 8
    self._agree()                                                        # 9
    self._call = self._runtime.session.make_callable(                    # 10
        self._fetches, self._feeds)

  # 1. Graph and inputs

  def _make_graph_and_inputs(self):
    self._graph = mtf.Graph()
    self._mesh = mtf.Mesh(self._graph, "mesh")
    self._scalar_names = ["num_rows"]
    if self._function == TRAIN:
      self._scalar_names += sorted(self._model.optimizer.hyperparameters(0))
    self._scalars = tf.placeholder(
        tf.float32, [len(self._scalar_names)], "scalars")
    self._step = tf.placeholder(tf.int64, [], "step")
    self._impl = self._runtime.mesh_impl(self._name, self._step)
    self._feeds = [self._scalars, self._step]
    self.input_boxes = []
    self._x = self._input(
        "x", self._model.input.batched(self.padded_batch),
        tf.as_dtype(self._model.input.dtype))
    self._num_rows = self._scalar("num_rows")
    batch = self._x.shape.dims[0]
    self._row_mask = ops.elementwise(
        lambda index, count: tf.cast(index < count, tf.float32),
        [ops.index(self._mesh, batch, tf.float32), self._num_rows],
        name="row_mask")

  def _input(self, name, shape, dtype):
    """Returns an mtf.Tensor fed by one placeholder per local processor."""
    dims = [(d.name, d.size) for d in shape.dims]
    boxes = [slices.slice_box(
        dims, self._runtime.layout, self._runtime.mesh, rank)
             for rank in self._runtime.local_ranks]
    placeholders = [
        tf.placeholder(dtype, slices.box_shape(box), name) for box in boxes]
    self._feeds += placeholders
    self.input_boxes.append(boxes)
    return mtf.import_laid_out_tensor(
        self._mesh, self._impl.LaidOutTensor(placeholders), shape, name=name)

  def _scalar(self, name):
    index = self._scalar_names.index(name)
    return mtf.import_tf_tensor(
        self._mesh, self._scalars[index], mtf.Shape([]))

  # 2. Forward

  def _call_layers(self):
    self._context = CallContext(
        self._mesh, training=self._function == TRAIN,
        row_mask=self._row_mask, num_rows=self._num_rows)
    with self._context:
      self._prediction = self._model.forward(self._x)

  # 3. Loss and metrics

  def _add_loss_and_metrics(self):
    loss = self._model.loss
    shape = self._prediction.shape
    self._target = self._input(
        "y", loss.target_shape(shape), loss.target_dtype)
    self._weights = self._input(
        "weights", mtf.Shape(shape.dims[:1]), tf.float32)
    with self._context:
      values = mtf.cast(
          loss.call(self._target, self._prediction), tf.float32)
      self.values_per_row = values.shape.size // self.padded_batch
      self._loss_sum = mtf.reduce_sum(values * self._weights)
      self.metrics = self._model.metrics_for(shape, self._target.shape)
      self._sums = [self._loss_sum]
      self.num_sums = {}
      for metric, weighted in self.metrics:
        sums = metric.sums(self._target, self._prediction,
                           self._weights if weighted else self._row_mask)
        self.num_sums[metric] = len(sums)
        self._sums += sums

  # 4. Gradients of the one global loss

  def _add_gradients(self):
    names = self._model.trainable_names
    self._trained = [variable for variable in self._graph.all_variables
                     if variable.name in names]
    # The loss is the sum over the global batch divided by the number of its
    # values; the division is in the seed of the backward pass, so that the
    # sum itself is never reduced in a step.
    seed = mtf.import_tf_tensor(
        self._mesh, 1.0 / (self._scalars[0] * self.values_per_row),
        mtf.Shape([]))
    self._gradients = mtf.gradients(
        [self._loss_sum], [v.outputs[0] for v in self._trained], [seed])

  # 5. Updates

  def _add_updates(self):
    optimizer = self._model.optimizer
    hyperparameters = {
        name: self._scalar(name) for name in self._scalar_names[1:]}
    self._updates = list(self._context.updates)
    for variable, gradient in zip(self._trained, self._gradients):
      if gradient is None:
        warnings.warn(
            "weight %r does not take part in the loss, so training leaves it "
            "as it is; remove it, or set trainable=False to silence this."
            % variable.name, stacklevel=2)
        continue
      slots = {
          name: self._slot(variable, name, initializer)
          for name, initializer in optimizer.slots(variable).items()}
      self._updates += optimizer.update(
          variable.outputs[0], slots, gradient, hyperparameters)

  def _slot(self, variable, name, initializer):
    full_name = slot_name(variable.name, name)
    self._runtime.store.declare_slot(full_name)
    return mtf.get_variable(
        self._mesh, full_name, variable.shape, dtype=variable.slice_dtype,
        initializer=initializer, trainable=False)

  # 7. What a step returns

  def _collect_results(self):
    lowered = self._lowering
    if self._function == PREDICT:
      self._fetches = [lowered.export_to_tf_tensor(self._prediction)]
      return
    self._counted = np.array([
        [self._counts(rank, lowered.tensors[s]) for s in self._sums]
        for rank in self._runtime.local_ranks], np.float64)
    partial = [_partial_slices(lowered.tensors[s]) for s in self._sums]
    self._fetches = [
        tf.stack([tf.cast(s[i], tf.float32) for s in partial])
        for i in range(len(self._runtime.local_ranks))]
    if self._function == TRAIN:
      self._fetches.append(tf.group(
          [lowered.lowered_operation(update) for update in self._updates]))

  def _counts(self, rank, laid_out):
    """Whether this processor's part of a sum is to be counted.

    An unreduced sum has one part per coordinate of the axes it is to be
    reduced over, and equal copies along the others; one copy counts.
    """
    axes = ()
    if isinstance(laid_out, mtf.LazyAllreduceSum):
      axes = [self._impl.axis_name(axis) for axis in laid_out.mesh_axes]
    return all(position == 0 for axis, position
               in self._runtime.mesh.coordinates(rank).items()
               if axis not in axes)

  # 9. Agreement

  def _agree(self):
    self.collectives = []
    if self._impl.collectives is None:
      return
    self.collectives = self._impl.collectives.reached_from(self._fetches)
    # Weights too: equal collectives may be of weights in another order.
    agreed = ["weight %s [%s]" % (stored.name, format_dims(stored.dims))
              for stored in self._runtime.store] + [
                  "collective " + " ".join(map(str, c.agreed()))
                  for c in self.collectives]
    digest = hashlib.sha256(repr(agreed).encode("utf-8")).hexdigest()
    if len(set(host_collectives.gather_objects(digest))) == 1:
      return
    lists = host_collectives.gather_objects(agreed)
    for rank, other in enumerate(lists):
      if other != lists[0]:
        raise ProcessSetError(_DIFFERENT % (
            self._name, *_first_difference(lists[0], rank, other)))

  # The step

  def run(self, inputs, num_rows, iteration):
    """Runs one step.

    Args:
      inputs: arrays of this process's slices: x (and y and weights), each
        one per local processor, in the order of `input_boxes`.
      num_rows: real rows of the global batch.
      iteration: the optimizer's, counted from 0.

    Returns: for PREDICT the full prediction [padded batch, ...]; else
      float64 [sums], this process's part of the sums of loss and metrics.
    """
    scalars = [num_rows]
    if self._function == TRAIN:
      values = self._model.optimizer.hyperparameters(iteration)
      scalars += [values[name] for name in self._scalar_names[1:]]
    results = self._call(
        np.array(scalars, np.float32), np.int64(iteration), *inputs)
    if self._function == PREDICT:
      return results[0]
    parts = np.array(results[:len(self._counted)], np.float64)
    # where, not a product: a replica's infinity times 0 would be NaN.
    return np.where(self._counted > 0, parts, 0.0).sum(axis=0)


def slot_name(weight_name, slot):
  """Returns the name of the variable that an optimizer keeps of a weight."""
  return "optimizer/%s/%s" % (weight_name, slot)


def _partial_slices(laid_out):
  if isinstance(laid_out, mtf.LazyAllreduceSum):
    return laid_out.laid_out_input.tensor_list
  return laid_out.to_laid_out_tensor().tensor_list


def _first_difference(one, rank, other):
  """Returns (rank 0's entry, rank, its entry) where two lists differ."""
  for entries in itertools.zip_longest(one, other, fillvalue="none"):
    if entries[0] != entries[1]:
      return entries[0], rank, entries[1]
  raise InternalError(
      "Program: equal lists of weights and collectives with two digests; "
      "report this.")
