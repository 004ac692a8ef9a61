"""activations.json: Keras's activations and their derivatives, in double."""
from common import f64, flat64, keras_tf, versions, write

import numpy as np

keras, tf = keras_tf()

# Spread over where the functions bend, and far enough out to catch overflow.
X = [-100.0, -30.0, -20.0, -10.0, -6.0, -4.5, -3.0, -2.0, -1.0, -0.5, -0.1,
     -1e-3, -1e-8, 0.0, 1e-8, 1e-3, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5,
     6.0, 10.0, 20.0, 30.0, 100.0]

A = keras.activations
ELEMENTWISE = {
    "relu": A.relu,
    "leaky_relu": A.get("leaky_relu"),
    "leaky_relu_layer": keras.layers.LeakyReLU(dtype="float64"),
    "swish": A.get("swish"),
    "silu": A.silu,
    "gelu": A.gelu,
    "elu": A.elu,
    "selu": A.selu,
    "softplus": A.softplus,
    "tanh": A.tanh,
    "sigmoid": A.sigmoid,
    "hard_sigmoid": A.hard_sigmoid,
    "mish": A.mish,
    "linear": A.linear,
    "exponential": A.exponential,
    "softsign": A.softsign,
    "relu6": A.relu6,
}
ARGUMENTS = {"leaky_relu_layer": {"negative_slope": 0.3}}
KINKS = {"relu": [0], "leaky_relu": [0], "leaky_relu_layer": [0],
         "hard_sigmoid": [-3, 3], "relu6": [0, 6]}


def elementwise(name, function):
    x = tf.constant(X, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    dydx = tape.gradient(y, x)
    assert y.dtype == tf.float64
    case = {"activation": name, "x": X, "y": flat64(y), "dydx": flat64(dydx)}
    case["kinks"] = [X.index(k) for k in KINKS.get(name, [])]
    if name in ARGUMENTS:
        case["args"] = ARGUMENTS[name]
    return case


def softmax(x):
    x = np.asarray(x, np.float64)
    dy = np.random.RandomState(1).randn(*x.shape).round(3)
    z = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = A.softmax(z)
    dx = tape.gradient(y, z, output_gradients=tf.constant(dy))
    return {"activation": "softmax", "shape": list(x.shape), "x": flat64(x),
            "y": flat64(y), "dy": flat64(dy), "dx": flat64(dx), "kinks": []}


def main():
    cases = [elementwise(n, f) for n, f in ELEMENTWISE.items()]
    r = np.random.RandomState(0)
    cases.append(softmax([[1, 2, 3], [-1, 0, 4], [0, 0, 0]]))
    cases.append(softmax([[1000.0, 999.0, -1000.0], [-800, -801, -799]]))
    cases.append(softmax((r.randn(4, 7) * 5).round(3)))
    cases.append(softmax(r.randn(2, 3, 5).round(3)))
    cases.append(softmax([[3.0], [-2.0]]))

    # The values that semantics.md gives.
    x7 = [-3, -1, -0.5, 0, 0.5, 1, 3]
    at = dict(zip(X, cases[list(ELEMENTWISE).index("swish")]["y"]))
    assert np.allclose([at[v] for v in x7],
                       [-.1422776, -.2689414, -.1887703, 0, .3112297,
                        .7310586, 2.8577223], rtol=1e-6)
    write("activations.json", __file__, versions("keras", "tensorflow"), cases)


main()
