"""The conformance table: every layer, loss, metric and optimizer.

To add one, add a row: a small model that uses it, and the layouts to try it
at. Every row is run at each of its layouts on a simulated mesh against one
process, and in one process against Keras. `test_table_is_complete` fails for
a public class that no row uses.
"""

from meshkeras import layers, losses, metrics, optimizers
from tests.conformance.rows import Row, Scale, layouts


def _after_scale(*made):
  """Returns a function that makes Scale and these: (class, arguments)."""
  def make():
    return [Scale()] + [cls(**options) for cls, options in made]
  return make


LAYERS = (
    Row("dense", "vectors", _after_scale(
        (layers.Dense, dict(units=4, dim="y", activation="tanh"))),
        layouts("batch x y", quarters="batch x y")),
    Row("dense of sequences", "sequences", _after_scale(
        (layers.Dense, dict(units=4, dim="y", activation="gelu"))),
        layouts("batch words x y", quarters="words")),
    Row("dense to its own dim", "vectors", _after_scale(
        (layers.Dense, dict(units=8, dim="x", activation="relu")),
        (layers.Dense, dict(units=8, dim="x", use_bias=False))),
        layouts("batch x x_in", quarters="x")),
    Row("conv2d same", "images", _after_scale(
        (layers.Conv2D, dict(filters=4, kernel_size=3, padding="same",
                             dim="y", activation="relu"))),
        layouts("batch rows cols x y", quarters="batch rows y")),
    Row("conv2d valid", "images", _after_scale(
        (layers.Conv2D, dict(filters=2, kernel_size=(5, 3), dim="y"))),
        layouts("rows cols", quarters="rows")),
    Row("conv2d strided", "images", _after_scale(
        (layers.Conv2D, dict(filters=4, kernel_size=3, strides=2,
                             padding="same", dim="x", use_bias=False))),
        layouts("batch rows cols x", "rows,cols batch,x", "cols")),
    Row("max_pooling2d", "images", _after_scale((layers.MaxPooling2D, {})),
        layouts("batch rows cols x", "rows,cols batch,x", "rows")),
    Row("max_pooling2d overlapping", "images", _after_scale(
        (layers.MaxPooling2D, dict(pool_size=3, strides=1, padding="same"))),
        layouts("rows cols")),
    Row("average_pooling2d", "images", _after_scale(
        (layers.AveragePooling2D, dict(pool_size=(2, 4)))),
        layouts("batch rows cols x", "rows,cols batch,x")),
    Row("average_pooling2d overlapping", "images", _after_scale(
        (layers.AveragePooling2D, dict(pool_size=3, strides=2,
                                       padding="same"))),
        layouts("rows cols", quarters="cols")),
    Row("global_average_pooling2d", "images", _after_scale(
        (layers.GlobalAveragePooling2D, {})),
        layouts("batch rows cols x", "rows,cols batch,rows cols,x", "rows")),
    Row("flatten", "images", _after_scale(
        (layers.Flatten, dict(dim="y"))),
        layouts("batch rows cols x y",
                "batch,rows rows,cols rows,y cols,x cols,y x,y batch,y",
                "rows y")),
    Row("activations", "vectors", _after_scale(
        (layers.Activation, dict(activation="leaky_relu")),
        (layers.Activation, dict(activation="softplus")),
        (layers.Activation, dict(activation="selu")),
        (layers.Activation, dict(activation="sigmoid"))),
        layouts("batch x")),
    Row("softmax", "sequences", _after_scale(
        (layers.Activation, dict(activation="softmax"))),
        layouts("batch words x", quarters="x")),
    Row("dropout", "sequences", _after_scale(
        (layers.Dropout, dict(rate=0.4)), (layers.Dropout, dict(rate=0.1))),
        layouts("batch words x", quarters="batch words"), random=True),
    Row("embedding", "ids", lambda: [
        layers.Embedding(8, 4, dim="y", vocabulary_dim="vocabulary")],
        layouts("batch words vocabulary y", quarters="vocabulary")),
    Row("layer_normalization", "sequences", _after_scale(
        (layers.LayerNormalization, {})),
        layouts("batch words x", quarters="x")),
    Row("layer_normalization of two dims", "images", _after_scale(
        (layers.LayerNormalization, dict(axis=[1, 3]))),
        layouts("rows cols x", "rows,x cols,x")),
    Row("batch_normalization", "images", _after_scale(
        (layers.BatchNormalization, dict(momentum=0.8))),
        layouts("batch rows cols x", quarters="batch")),
    Row("batch_normalization of vectors", "vectors", _after_scale(
        (layers.BatchNormalization, dict(momentum=0.8, center=False))),
        layouts("batch x", quarters="batch")),
)

_CLASSES = layouts("batch x classes", "batch,classes x,classes", "classes")


def _classifier(activation=None):
  return lambda: [layers.Dense(8, dim="classes", activation=activation)]


def _probabilities():
  # Scale hides the sigmoid, whose logits Keras takes for those of a softmax.
  return [layers.Dense(8, dim="classes", activation="sigmoid"), Scale()]


LOSSES = (
    Row("mean_squared_error", "sequences", _classifier("relu"),
        layouts("batch words classes", "batch,classes words,classes"),
        weighted=True),
    Row("sparse_categorical_crossentropy", "vectors", _classifier(), _CLASSES,
        lambda: losses.SparseCategoricalCrossentropy(from_logits=True),
        lambda: ["accuracy"], targets="labels", weighted=True),
    Row("sparse_categorical_crossentropy of softmax", "sequences",
        _classifier("softmax"),
        layouts("batch words classes", "words,classes"),
        losses.SparseCategoricalCrossentropy, targets="labels"),
    Row("sparse_categorical_crossentropy of probabilities", "vectors",
        _probabilities, layouts("batch classes"),
        losses.SparseCategoricalCrossentropy, targets="labels"),
    Row("categorical_crossentropy", "vectors", _classifier(), _CLASSES,
        lambda: losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=0.1),
        lambda: ["accuracy"], targets="one_hot", weighted=True),
    Row("categorical_crossentropy of probabilities", "vectors",
        _probabilities, layouts("batch classes"),
        losses.CategoricalCrossentropy, targets="one_hot"),
    Row("binary_crossentropy", "vectors", _classifier(),
        layouts("batch classes"),
        lambda: losses.BinaryCrossentropy(
            from_logits=True, label_smoothing=0.2), targets="bits",
        weighted=True),
    Row("binary_crossentropy of sigmoid", "vectors", _classifier("sigmoid"),
        layouts("batch classes"), losses.BinaryCrossentropy,
        lambda: ["accuracy"], targets="bits"),
)

METRICS = (
    Row("metrics of values", "sequences", _classifier("relu"),
        layouts("batch words classes", "batch,classes"),
        metrics=lambda: [
            metrics.MeanSquaredError(), metrics.MeanAbsoluteError(),
            metrics.Accuracy()],
        targets="bits", weighted=True),
    Row("metrics of classes", "vectors", _classifier("softmax"), _CLASSES,
        losses.CategoricalCrossentropy,
        lambda: [metrics.CategoricalAccuracy(),
                 metrics.BinaryAccuracy(threshold=0.2)],
        targets="one_hot", weighted=True),
    Row("metrics of labels", "sequences", _classifier(),
        layouts("batch words classes", "words,classes"),
        lambda: losses.SparseCategoricalCrossentropy(from_logits=True),
        lambda: [metrics.SparseCategoricalAccuracy(name="right")],
        targets="labels", weighted=True),
)


def _optimizer(name, cls, **options):
  return Row(
      name, "vectors", lambda: [
          layers.Dense(8, dim="y", activation="tanh"),
          layers.Dense(4, dim="z")],
      ("batch:a,y:b", "x:a,y:b", "y:q"), optimizer=lambda: cls(**options))


OPTIMIZERS = (
    _optimizer("sgd", optimizers.SGD, learning_rate=0.3),
    _optimizer("sgd with momentum", optimizers.SGD, learning_rate=0.1,
               momentum=0.9),
    _optimizer("sgd with nesterov", optimizers.SGD, learning_rate=0.1,
               momentum=0.8, nesterov=True),
    _optimizer("adam", optimizers.Adam, learning_rate=0.05),
    _optimizer("adamw", optimizers.AdamW, learning_rate=0.05,
               weight_decay=0.1),
)

ROWS = LAYERS + LOSSES + METRICS + OPTIMIZERS
