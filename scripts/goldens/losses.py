"""losses.json: Keras losses per example, per batch, and their gradients.

A softmax or sigmoid stands before the loss where the case says so ("after");
Keras on TensorFlow then computes from the logits. "outputs" are what the last
layer gives before that softmax or sigmoid, and "gradient" is with respect to
them. With "after": null and from_logits false, outputs are probabilities (or
numbers) and the clipped path is taken.
"""
from common import f32, flat32, keras_tf, tensor, versions, write

import numpy as np

keras, tf = keras_tf()

CLASSES = {
    "categorical_crossentropy": keras.losses.CategoricalCrossentropy,
    "sparse_categorical_crossentropy":
        keras.losses.SparseCategoricalCrossentropy,
    "binary_crossentropy": keras.losses.BinaryCrossentropy,
    "mse": keras.losses.MeanSquaredError,
    "mae": keras.losses.MeanAbsoluteError,
    "huber": keras.losses.Huber,
}
AFTER = {"softmax": keras.activations.softmax,
         "sigmoid": keras.activations.sigmoid, None: lambda z: z}
CASES = []


def add(name, y, outputs, args=None, after=None, sample_weight=None):
    y = np.asarray(y)
    outputs = np.asarray(outputs, np.float32)
    target = y if y.dtype.kind == "i" else y.astype(np.float32)
    z = tf.constant(outputs)
    args = args or {}
    weight = None
    if sample_weight is not None:
        weight = tf.constant(np.asarray(sample_weight, np.float32))
    with tf.GradientTape() as tape:
        tape.watch(z)
        p = AFTER[after](z)
        loss = CLASSES[name](**args)(target, p, sample_weight=weight)
    gradient = tape.gradient(loss, z)
    each = CLASSES[name](**args, reduction=None)(target, AFTER[after](z))
    case = {"loss": {name: args}, "after": after,
            "y": {"shape": list(y.shape), "data": y.reshape(-1).tolist()
                  if y.dtype.kind == "i" else flat32(y)},
            "outputs": tensor(outputs), "per_example": flat32(each),
            "batch": f32(loss), "gradient": tensor(gradient)}
    if sample_weight is not None:
        case["sample_weight"] = flat32(sample_weight)
    CASES.append(case)
    return case


def one_hot(labels, classes):
    return np.eye(classes)[labels]


def crossentropy(r):
    name, sparse = "categorical_crossentropy", "sparse_categorical_crossentropy"
    z = (r.randn(6, 4) * 2).round(3)
    labels = np.array([0, 3, 1, 2, 2, 0])
    w = [1, 0.5, 2, 0, 1.25, 3]
    soft = r.dirichlet(np.ones(4), 6).round(4)
    soft[:, 3] = (1 - soft[:, :3].sum(1)).round(4)
    for args, after in (({}, "softmax"), ({"from_logits": True}, None)):
        for smoothing in (None, 0.1, 0.3):
            more = dict(args)
            if smoothing:
                more["label_smoothing"] = smoothing
            add(name, one_hot(labels, 4), z, more, after)
            add(name, one_hot(labels, 4), z, more, after, w)
        add(name, soft, z, args, after)
        add(sparse, labels, z, args, after)
        add(sparse, labels, z, args, after, w)
        # Far out: log-probabilities that a clipped path would cut at 16.118.
        far = [[100, 0, -50], [-80, 90, 3], [30, 29, -200], [0, 0, 0]]
        add(name, one_hot([1, 0, 2, 1], 3), far, args, after)
        add(sparse, np.array([1, 0, 2, 1]), far, args, after)
        two = (r.randn(5, 2) * 3).round(3)
        add(name, one_hot([0, 1, 1, 0, 1], 2), two, args, after)
        add(sparse, np.array([0, 1, 1, 0, 1]), two, args, after)
        add(name, one_hot([1], 2), two[:1], args, after)
    # What semantics.md 2.1 gives.
    p = [[.05, .95, 0], [.1, .8, .1]]
    y = one_hot([1, 2], 3)
    assert abs(add(name, y, p)["batch"] - 1.1769392) < 1e-6
    add(name, y, p, {"label_smoothing": 0.1})
    assert abs(add(name, y, p, sample_weight=[1, 3])["batch"] - 3.4795244) < 1e-6
    logits = [[1, 2, 3], [-1, 0, 4]]
    assert abs(add(name, y, logits, {"from_logits": True})["batch"]
               - .7161754) < 1e-6
    add(name, [[1.0, 0.0]], [[0.0, 1.0]])
    add(name, [[1.0, 0.0]], [[2.0, 2.0]])
    probabilities = r.dirichlet(np.ones(3), 5).round(4)
    add(name, one_hot([0, 2, 1, 1, 0], 3), probabilities)
    add(sparse, np.array([0, 2, 1, 1, 0]), probabilities)


def binary(r):
    name = "binary_crossentropy"
    z = (r.randn(6, 1) * 2).round(3)
    y = np.array([[0.0], [1], [1], [0], [1], [0]])
    w = [1, 0.5, 2, 0, 1.25, 3]
    far = [[100.0], [-100.0], [40.0], [-30.0], [0.0], [17.0]]
    for args, after in (({}, "sigmoid"), ({"from_logits": True}, None)):
        for smoothing in (None, 0.2):
            more = dict(args)
            if smoothing:
                more["label_smoothing"] = smoothing
            add(name, y, z, more, after)
            add(name, y, z, more, after, w)
        add(name, y, far, args, after)
    add(name, [[1.0], [0.0], [1.0], [0.0]], [[0.0], [0.0], [0.75], [1.0]])
    add(name, [[1.0], [0.0], [1.0]], [[0.3], [0.9], [0.5]],
        {"label_smoothing": 0.1})


def regression(r):
    y = r.randn(5, 1).round(3)
    p = (y + r.randn(5, 1)).round(3)
    p[2] = y[2]  # an error of exactly 0
    w = [1, 0.5, 2, 0, 3]
    y3, p3 = r.randn(4, 3).round(3), r.randn(4, 3).round(3)
    for name, args in (("mse", {}), ("mae", {}), ("huber", {}),
                       ("huber", {"delta": 0.5}), ("huber", {"delta": 2.0})):
        add(name, y, p, args)
        add(name, y, p, args, None, w)
        add(name, y3, p3, args)
    # Errors exactly at delta, and far out.
    add("huber", [[0.0], [0.0], [0.0], [0.0]], [[1.0], [-1.0], [1000.0], [0.0]])


def main():
    r = np.random.RandomState(3)
    crossentropy(r)
    binary(r)
    regression(r)
    write("losses.json", __file__, versions("keras", "tensorflow"), CASES)


main()
