"""layers.json: outputs and gradients of Keras layers.

Inputs are float32 numbers; Keras computes in double (so that the goldens have
no rounding of their own) and the results are rounded to float32. A second run
in float32 must agree to 1e-5 of the largest value.
"""
from common import keras_tf, tensor, versions, write

import numpy as np

keras, tf = keras_tf()
L = keras.layers

CLASSES = {
    "conv1d": L.Conv1D, "dense": L.Dense, "flatten": L.Flatten,
    "max_pooling1d": L.MaxPooling1D, "average_pooling1d": L.AveragePooling1D,
    "global_max_pooling1d": L.GlobalMaxPooling1D,
    "global_average_pooling1d": L.GlobalAveragePooling1D,
    "batch_normalization": L.BatchNormalization,
    "layer_normalization": L.LayerNormalization,
    "dropout": L.Dropout, "spatial_dropout1d": L.SpatialDropout1D,
}
CASES = []
R = np.random.RandomState(2024)


def draw(shape, scale=1.0, offset=0.0):
    return (R.randn(*shape) * scale + offset).round(3).astype(np.float32)


def weights_for(layer):
    """Random weights; gamma and the moving variance around 1."""
    values = []
    for v in layer.weights:
        if v.name == "moving_variance":
            values.append((R.rand(*v.shape) + 0.5).round(3))
        else:
            values.append(draw(v.shape, 0.5, 1.0 if v.name == "gamma" else 0))
    return [v.astype(np.float32) for v in values]


def run(name, args, x, weights, dy, training, dtype):
    layer = CLASSES[name](**args, dtype=dtype)
    layer.build(x.shape)
    if weights is None:
        weights = weights_for(layer)
    layer.set_weights(weights)
    xt = tf.constant(x.astype(dtype))
    with tf.GradientTape() as tape:
        tape.watch(xt)
        y = layer(xt, training=training)
    if dy is None:
        dy = draw(y.shape)
    trainable = [v.value for v in layer.trainable_weights]
    grads = tape.gradient(y, [xt] + trainable,
                          output_gradients=tf.constant(dy.astype(dtype)))
    return layer, weights, dy, np.asarray(y), [np.asarray(g) for g in grads]


def add(name, args, x, training=False, note=None):
    x = np.asarray(x, np.float32)
    layer, weights, dy, y, grads = run(name, args, x, None, None, training,
                                       "float64")
    again, _, _, y32, grads32 = run(name, args, x, weights, dy, training,
                                    "float32")
    for a, b in zip([y] + grads, [y32] + grads32):
        assert np.abs(a - b).max() <= 1e-5 * max(1, np.abs(a).max()), name

    def named(variables, values):
        return [{"name": v.name, **tensor(a)}
                for v, a in zip(variables, values)]

    case = {"layer": {name: args}, "training": training, "x": tensor(x),
            "weights": named(layer.weights, weights), "y": tensor(y),
            "dy": tensor(dy), "dx": tensor(grads[0]),
            "dweights": named(layer.trainable_weights, grads[1:])}
    if name == "batch_normalization":
        case["moving_after"] = named(layer.weights[-2:],
                                     layer.get_weights()[-2:])
    if note:
        case["note"] = note
    CASES.append(case)


def conv1d():
    def conv(x, **args):
        add("conv1d", args, draw(x))

    conv((2, 9, 3), filters=4, kernel_size=3)
    conv((1, 7, 1), filters=1, kernel_size=7)
    conv((3, 5, 2), filters=3, kernel_size=1)
    conv((2, 11, 2), filters=5, kernel_size=4, use_bias=False)
    conv((2, 20, 1), filters=17, kernel_size=9)
    conv((1, 6, 19), filters=3, kernel_size=2)
    for length in (8, 9, 10):
        conv((2, length, 2), filters=3, kernel_size=3, strides=2)
        conv((2, length, 2), filters=3, kernel_size=3, strides=2,
             padding="same")
    for kernel in (2, 3, 4, 5):
        conv((2, 7, 2), filters=3, kernel_size=kernel, padding="same")
    conv((2, 4, 2), filters=3, kernel_size=7, padding="same")
    conv((2, 11, 2), filters=2, kernel_size=2, strides=5, padding="same")
    conv((2, 10, 3), filters=2, kernel_size=3, strides=4)
    conv((2, 7, 2), filters=3, kernel_size=3, padding="causal")
    conv((2, 9, 2), filters=3, kernel_size=4, strides=3, padding="causal")
    conv((2, 3, 2), filters=2, kernel_size=5, padding="causal")
    for padding in ("valid", "same", "causal"):
        conv((2, 11, 2), filters=3, kernel_size=3, dilation_rate=2,
             padding=padding)
        conv((1, 13, 3), filters=2, kernel_size=4, dilation_rate=3,
             padding=padding)
    conv((2, 8, 4), filters=6, kernel_size=3, groups=2)
    conv((2, 9, 3), filters=6, kernel_size=3, groups=3, padding="same")
    conv((2, 9, 4), filters=4, kernel_size=2, groups=4, strides=2,
         padding="causal", use_bias=False)
    conv((1, 12, 6), filters=6, kernel_size=3, groups=2, dilation_rate=2)
    for activation in ("relu", "swish", "tanh"):
        conv((2, 8, 2), filters=5, kernel_size=3, padding="same",
             activation=activation)


def pooling():
    for name in ("max_pooling1d", "average_pooling1d"):
        for padding in ("valid", "same"):
            for x, pool, strides in (((2, 8, 3), 2, None), ((2, 9, 2), 2, None),
                                     ((1, 11, 3), 4, None), ((2, 10, 2), 3, 2),
                                     ((2, 7, 2), 3, 1), ((2, 10, 2), 2, 3),
                                     ((1, 5, 1), 5, None)):
                args = {"pool_size": pool, "padding": padding}
                if strides:
                    args["strides"] = strides
                add(name, args, draw(x))
    ties = np.maximum(draw((2, 8, 3)), 0)
    ties[0, :, 0] = 0
    ties[1, :4, 1] = 1.5
    for pool, strides, padding in ((2, 2, "valid"), (4, 4, "valid"),
                                   (3, 2, "valid"), (3, 1, "same")):
        add("max_pooling1d", {"pool_size": pool, "strides": strides,
                              "padding": padding}, ties,
            note="ties: the gradient goes to the first of the equal cells")
    for name in ("global_max_pooling1d", "global_average_pooling1d"):
        for x in ((2, 7, 3), (1, 1, 2), (3, 10, 1)):
            add(name, {}, draw(x))
        add(name, {"keepdims": True}, draw((2, 5, 3)))
    add("global_max_pooling1d", {}, ties,
        note="ties: the gradient is shared equally by the equal cells")


def dense():
    add("dense", {"units": 4}, draw((3, 5)))
    add("dense", {"units": 1}, draw((2, 7)))
    add("dense", {"units": 3, "use_bias": False}, draw((5, 2)))
    add("dense", {"units": 17}, draw((1, 33)))
    add("dense", {"units": 4}, draw((2, 5, 3)))
    add("dense", {"units": 2, "use_bias": False}, draw((3, 4, 1)))
    for activation in ("relu", "sigmoid", "gelu", "softmax"):
        add("dense", {"units": 3, "activation": activation}, draw((4, 5)))
    add("dense", {"units": 3, "activation": "softmax"}, draw((2, 4, 5)))


def normalization():
    for training in (True, False):
        for args, x in (({}, (3, 5, 4)), ({}, (6, 3)), ({}, (1, 7, 2)),
                        ({"momentum": 0.9, "epsilon": 1e-5}, (2, 4, 3)),
                        ({"center": False}, (2, 4, 3)),
                        ({"scale": False}, (2, 4, 3)),
                        ({"center": False, "scale": False}, (4, 2))):
            add("batch_normalization", args, draw(x, 2.0, 1.0), training)
    x = draw((2, 4, 2))
    x[:, :, 0] = 0.75
    add("batch_normalization", {}, x, True, "a constant channel")
    for args, x in (({}, (2, 5, 4)), ({}, (3, 6)), ({"epsilon": 1e-6}, (2, 7)),
                    ({"center": False}, (2, 3, 5)), ({"scale": False}, (4, 3)),
                    ({}, (2, 3, 1))):
        add("layer_normalization", args, draw(x, 2.0, 1.0))


def rest():
    add("flatten", {}, draw((2, 3, 4)))
    add("flatten", {}, draw((3, 5)))
    add("dropout", {"rate": 0.4}, draw((2, 3, 4)))
    add("dropout", {"rate": 0.0}, draw((2, 6)), training=True)
    add("spatial_dropout1d", {"rate": 0.5}, draw((2, 3, 4)))


def main():
    conv1d()
    pooling()
    dense()
    normalization()
    rest()
    write("layers.json", __file__, versions("keras", "tensorflow"), CASES)


main()
