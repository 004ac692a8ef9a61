"""initializers.json: what each Keras initialiser draws from, by shape."""
from common import f64, flat64, keras_tf, versions, write

import numpy as np

keras, tf = keras_tf()
from keras.src.initializers.random_initializers import compute_fans

SHAPES = [(5, 3), (104, 20), (9, 1, 24), (5, 21, 64), (5, 64, 64), (3, 2, 6),
          (1, 7, 1), (13,), (4, 4)]
# name: (scale, mode, distribution) of VarianceScaling
SCALED = {
    "glorot_uniform": (1, "fan_avg", "uniform"),
    "glorot_normal": (1, "fan_avg", "truncated_normal"),
    "he_uniform": (2, "fan_in", "uniform"),
    "he_normal": (2, "fan_in", "truncated_normal"),
    "lecun_uniform": (1, "fan_in", "uniform"),
    "lecun_normal": (1, "fan_in", "truncated_normal"),
}
FIXED = {
    "random_uniform": ("uniform", {"minval": -0.05, "maxval": 0.05}),
    "random_normal": ("normal", {"mean": 0.0, "stddev": 0.05}),
    "truncated_normal": ("truncated_normal", {"mean": 0.0, "stddev": 0.05}),
    "zeros": ("constant", {"value": 0.0}),
    "ones": ("constant", {"value": 1.0}),
}
# The standard deviation of a unit normal cut at two.
CUT = 0.87962566103423978


def check(name, args, shape, case):
    """Draws from the real initialiser and compares with what we say of it."""
    values = np.concatenate([np.asarray(
        keras.initializers.get({"class_name": CLASS[name], "config":
                                {**args, "seed": s}})(shape)).reshape(-1)
        for s in range(max(1, 20000 // int(np.prod(shape))))])
    if case["distribution"] == "uniform":
        assert np.abs(values).max() <= case["limit"] * (1 + 1e-6)
        assert np.abs(values).max() >= case["limit"] * 0.99
    else:
        assert abs(values.std() / case["std"] - 1) < 0.03, (name, shape)
        if case["distribution"] == "truncated_normal":
            edge = 2 * case["drawn_std"]
            assert 0.97 * edge <= np.abs(values).max() <= edge * (1 + 1e-6)


CLASS = {"glorot_uniform": "GlorotUniform", "glorot_normal": "GlorotNormal",
         "he_uniform": "HeUniform", "he_normal": "HeNormal",
         "lecun_uniform": "LecunUniform", "lecun_normal": "LecunNormal",
         "variance_scaling": "VarianceScaling",
         "random_uniform": "RandomUniform", "random_normal": "RandomNormal",
         "truncated_normal": "TruncatedNormal"}


def scaled(name, args, shape, scale, mode, distribution):
    fan_in, fan_out = compute_fans(shape)
    fan = {"fan_in": fan_in, "fan_out": fan_out,
           "fan_avg": (fan_in + fan_out) / 2}[mode]
    variance = scale / max(1.0, fan)
    case = {"initializer": name, "args": args, "shape": list(shape),
            "fan_in": int(fan_in), "fan_out": int(fan_out),
            "distribution": distribution}
    if distribution == "uniform":
        case["limit"] = f64(np.sqrt(3 * variance))
        case["std"] = f64(np.sqrt(variance))
    else:
        case["std"] = f64(np.sqrt(variance))
        case["drawn_std"] = f64(np.sqrt(variance) / (
            CUT if distribution == "truncated_normal" else 1))
    if distribution == "untruncated_normal":
        case["distribution"] = "normal"
    check(name, args, shape, case)
    return case


def fixed(name, shape):
    distribution, args = FIXED[name]
    fan_in, fan_out = compute_fans(shape)
    case = {"initializer": name, "args": {}, "shape": list(shape),
            "fan_in": int(fan_in), "fan_out": int(fan_out),
            "distribution": distribution}
    if distribution == "uniform":
        case["limit"] = args["maxval"]
        case["std"] = f64(args["maxval"] / np.sqrt(3))
    elif distribution == "constant":
        case["value"] = args["value"]
        assert (np.asarray(keras.initializers.get(name)(shape))
                == args["value"]).all()
        return case
    else:
        case["drawn_std"] = args["stddev"]
        case["std"] = f64(args["stddev"] * (
            CUT if distribution == "truncated_normal" else 1))
    check(name, args, shape, case)
    return case


def orthogonal(shape, gain):
    """Which way round the matrix is orthonormal, and one worked example:
    from the normal matrix that was drawn to the weights."""
    rows, columns = int(np.prod(shape[:-1])), shape[-1]
    q = np.asarray(keras.initializers.Orthogonal(gain, seed=1)(shape))
    q = q.reshape(rows, columns).astype(np.float64)
    product = q.T @ q if rows >= columns else q @ q.T
    assert np.allclose(product, gain * gain * np.eye(len(product)), atol=1e-5)

    normal = np.random.RandomState(8).randn(max(rows, columns),
                                            min(rows, columns)).round(3)
    q, r = np.linalg.qr(normal)
    q = q * np.sign(np.diag(r))
    if rows < columns:
        q = q.T
    return {"initializer": "orthogonal", "args": {"gain": gain},
            "shape": list(shape), "rows": rows, "columns": columns,
            "orthonormal": "columns" if rows >= columns else "rows",
            "normal": flat64(normal), "weights": flat64(gain * q)}


def main():
    cases = []
    for name, (scale, mode, distribution) in SCALED.items():
        for shape in SHAPES:
            cases.append(scaled(name, {}, shape, scale, mode, distribution))
    for scale in (1.0, 0.5):
        for mode in ("fan_in", "fan_out", "fan_avg"):
            for distribution in ("uniform", "truncated_normal",
                                 "untruncated_normal"):
                args = {"scale": scale, "mode": mode,
                        "distribution": distribution}
                for shape in ((20, 7), (3, 2, 6)):
                    cases.append(scaled("variance_scaling", args, shape,
                                        scale, mode, distribution))
    for name in FIXED:
        cases.append(fixed(name, (9, 1, 24)))
    for shape, gain in (((4, 4), 1.0), ((6, 3), 1.0), ((2, 5), 1.0),
                        ((3, 2, 4), 0.5), ((2, 2, 7), 2.0)):
        cases.append(orthogonal(shape, gain))
    write("initializers.json", __file__, versions("keras", "tensorflow"), cases)


main()
