"""optimizers.json: ten Keras updates from fixed gradients, step by step."""
from common import flat32, keras_tf, versions, write

import numpy as np

keras, tf = keras_tf()

CLASSES = {
    "sgd": keras.optimizers.SGD, "adam": keras.optimizers.Adam,
    "adamw": keras.optimizers.AdamW, "rmsprop": keras.optimizers.RMSprop,
    "nadam": keras.optimizers.Nadam, "adagrad": keras.optimizers.Adagrad,
    "lion": keras.optimizers.Lion,
}
VARIANTS = {
    "sgd": [{"learning_rate": 0.1}, {"learning_rate": 0.1, "momentum": 0.9},
            {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}],
    "adam": [{"learning_rate": 0.01}, {"learning_rate": 0.01, "amsgrad": True}],
    "adamw": [{"learning_rate": 0.01}],
    "rmsprop": [{"learning_rate": 0.01},
                {"learning_rate": 0.01, "momentum": 0.9},
                {"learning_rate": 0.01, "momentum": 0.9, "centered": True}],
    "nadam": [{"learning_rate": 0.01}],
    "adagrad": [{"learning_rate": 0.1}],
    "lion": [{"learning_rate": 0.01}],
}
CLIPS = [{}, {"clipnorm": 1.0}, {"global_clipnorm": 1.0}, {"clipvalue": 0.5}]
VARIABLES = [{"name": "kernel", "shape": [2, 3]}, {"name": "bias", "shape": [3]}]
STEPS = 10


def start():
    return [np.array([[1, -2, 0.5], [0.25, -0.75, 3]], np.float32),
            np.array([0.25, 0, -1], np.float32)]


def gradients():
    """Some steps under every clip, some over; one all zero."""
    r = np.random.RandomState(5)
    scales = [1, 0.1, 3, 0.2, 0, 0.5, 10, 0.05, 1, 2]
    return [[(r.randn(2, 3) * s).round(3).astype(np.float32),
             (r.randn(3) * s * 0.5).round(3).astype(np.float32)]
            for s in scales]


def descend(name, args, weights, steps):
    optimizer = CLASSES[name](**args)
    variables = [keras.Variable(w) for w in weights]
    optimizer.build(variables)
    after = []
    for grads in steps:
        optimizer.apply([tf.constant(g) for g in grads], variables)
        after.append([np.array(v.numpy()) for v in variables])
    return after


def semantics_goldens():
    """The table of semantics.md 3.2 must come out of the same code."""
    weights = [np.array([1, -2, .5], np.float32), np.array([.25], np.float32)]
    steps = [[np.array([.3, -.1, 2], np.float32) * t, np.array([-4], np.float32)]
             for t in (1, 2, 3)]
    for name, args, w, b in (
        ("sgd", dict(learning_rate=.1), (.82, -1.94, -.7), 1.45),
        ("sgd", dict(learning_rate=.1, momentum=.9),
         (.7147, -1.9049, -1.402), 2.494),
        ("sgd", dict(learning_rate=.1, momentum=.9, nesterov=True),
         (.56323, -1.85441, -2.4118), 3.4696),
        ("adam", dict(learning_rate=.01),
         (.97076857, -1.9707689, .47076836), .2799998),
        ("adam", dict(learning_rate=.01, clipnorm=1),
         (.97000074, -1.9700017, .4700003), .2799997),
        ("sgd", dict(learning_rate=.1, clipnorm=1),
         (.95555222, -1.9851842, .2036811), .55),
        ("sgd", dict(learning_rate=.1, global_clipnorm=1),
         (.97039348, -1.990131, .302623), .4644889),
        ("sgd", dict(learning_rate=.1, clipvalue=.5), (.87, -1.94, .35), .4),
        ("adamw", dict(learning_rate=.01, weight_decay=.1),
         (.96780121, -1.9648045, .4692995), .2792205),
        ("rmsprop", dict(learning_rate=.01),
         (.91389966, -1.9139013, .4138994), .3237738),
        ("rmsprop", dict(learning_rate=.01, momentum=.9, centered=True),
         (.82040888, -1.8204141, .3204083), .4112639),
    ):
        last = descend(name, args, weights, steps)[-1]
        assert np.allclose(last[0], w, rtol=2e-6), (name, args, last)
        assert np.allclose(last[1], b, rtol=2e-6), (name, args, last)


def non_finite_clips():
    inf, nan = np.inf, np.nan
    cases = []
    for kernel in ([0.3, -0.1, 2], [inf, 1, -2], [1, -inf, inf], [nan, 1, 2],
                   [3e19, 1, -2e19], [0, 0, 0], [1e-30, -1e-25, 0],
                   [nan, inf, -4]):
        grads = [np.array(kernel, np.float32),
                 np.array([4, -3], np.float32)]
        for clip in CLIPS[1:]:
            optimizer = keras.optimizers.SGD(**clip)
            clipped = optimizer._clip_gradients(
                [tf.constant(g) for g in grads])
            cases.append({"clip": clip, "gradients": [flat32(g) for g in grads],
                          "clipped": [flat32(g) for g in clipped]})
    return cases


def main():
    semantics_goldens()
    steps = gradients()
    cases = []
    for name, variants in VARIANTS.items():
        for variant in variants:
            for clip in CLIPS:
                for decay in ({}, {"weight_decay": 0.05}):
                    args = {**variant, **clip, **decay}
                    after = descend(name, args, start(), steps)
                    cases.append({
                        "optimizer": {name: args},
                        "after": [[flat32(w) for w in s] for s in after]})
    write("optimizers.json", __file__, versions("keras", "tensorflow"), cases,
          variables=VARIABLES, start=[flat32(w) for w in start()],
          gradients=[[flat32(g) for g in s] for s in steps],
          non_finite_clips=non_finite_clips())


main()
