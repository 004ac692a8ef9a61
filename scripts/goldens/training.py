"""training.json: whole Keras training steps, and whole fits, of small networks.

Data and initial weights come from a formula (see README.md), so the file
holds only what came out: each step's loss and gradient norm, and sums of the
weights. Every case runs twice: in float32, as users do, and in float64
("loss64", "norm64"), which says how much of a difference is rounding.
"""
import itertools

from common import f32, f64, flat32, keras_tf, versions, write

import numpy as np

keras, tf = keras_tf()
L = keras.layers

CLASSES = {
    "conv1d": L.Conv1D, "dense": L.Dense, "flatten": L.Flatten,
    "max_pooling1d": L.MaxPooling1D, "average_pooling1d": L.AveragePooling1D,
    "global_average_pooling1d": L.GlobalAveragePooling1D,
    "batch_normalization": L.BatchNormalization, "dropout": L.Dropout,
    "activation": L.Activation,
}
OPTIMIZERS = {"adam": keras.optimizers.Adam, "sgd": keras.optimizers.SGD,
              "rmsprop": keras.optimizers.RMSprop}
LETTERS = "ACDEFGHIKLMNPQRSTVWYX"  # X: unknown
SHOW = (0, 1, 5, 20)


def uniform(shape, salt, limit, offset=0.0):
    """The formula of README.md: float32 numbers any language can make."""
    with np.errstate(over="ignore"):
        h = np.arange(int(np.prod(shape)), dtype=np.uint32)
        h = h * np.uint32(2654435761) + np.uint32(salt)
        h ^= h >> np.uint32(16)
        h *= np.uint32(0x85EBCA6B)
        h ^= h >> np.uint32(13)
        h *= np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    u = (h >> np.uint32(8)).astype(np.float64) / 2.0 ** 24
    values = offset + (2.0 * u - 1.0) * limit
    return values.astype(np.float32).reshape(shape)


def letters(n, length, salt):
    codes = uniform((n, length), salt, 1.0).astype(np.float64)
    codes = np.floor((codes + 1) / 2 * len(LETTERS)).astype(int)
    return codes.clip(0, len(LETTERS) - 1)


def sensor_data(n, length, channels, salt, classes=2):
    """Labels that can be learned: which third or half a mean falls in."""
    x = uniform((n, length, channels), salt, 1.0)
    mean = x[:, :, 0].astype(np.float64).mean(axis=1)
    y = np.searchsorted(np.quantile(mean, np.arange(1, classes) / classes),
                        mean)
    return x, y.astype(int)


def protein_data(n, salt, channels):
    codes = letters(n, 17, salt)
    x = (codes[:, :, None] == np.arange(channels)).astype(np.float32)
    return codes, x, codes[:, 8] % 3


def resolve(args):
    """Regularisers are written {"l2": {"l2": 0.01}}, as layers are."""
    args = dict(args)
    for key, value in args.items():
        if key.endswith("_regularizer"):
            (name, options), = value.items()
            args[key] = {"l1": keras.regularizers.L1,
                         "l2": keras.regularizers.L2,
                         "l1_l2": keras.regularizers.L1L2}[name](**options)
    return args


def build(spec, shape, start):
    layers = []
    for entry in spec:
        (name, args), = entry.items()
        layers.append(CLASSES[name](**resolve(args)))
    model = keras.Sequential([keras.Input(shape)] + layers)
    formulas, values = [], []
    for index, layer in enumerate(layers):
        for v in layer.weights:
            salt = start + len(formulas)
            if v.name == "kernel":
                fan_in, fan_out = keras.src.initializers.random_initializers \
                    .compute_fans(v.shape)
                limit, offset = float(np.sqrt(6 / (fan_in + fan_out))), 0.0
            elif v.name in ("gamma", "moving_variance"):
                limit, offset = 0.25, 1.0
            else:
                limit, offset = 0.05, 0.0
            formulas.append({"layer": index, "name": v.name,
                             "shape": list(v.shape), "salt": salt,
                             "limit": limit, "offset": offset})
            values.append(uniform(v.shape, salt, limit, offset))
    ordered = [v for layer in layers for v in layer.weights]
    for v, value in zip(ordered, values):
        v.assign(value)
    return model, ordered, formulas


def summary(variables):
    """Sums are taken in double over what the variables hold."""
    rows = []
    for v in variables:
        a = np.asarray(v.numpy())
        d = a.astype(np.float64).reshape(-1)
        rows.append({"sum": f64(d.sum()), "sumsq": f64((d * d).sum()),
                     "first": flat32(a.reshape(-1)[:8])})
    return rows


def one_hot(y, classes):
    return np.eye(classes, dtype=np.float32)[y]


def target_of(case, y):
    name, = case["loss"]
    if name == "categorical_crossentropy":
        return one_hot(y, case["classes"])
    if name == "sparse_categorical_crossentropy":
        return y
    return np.asarray(y, np.float32).reshape(len(y), 1)


def compiled(case, x):
    model, variables, formulas = build(case["model"], x.shape[1:],
                                       case["weights_salt"])
    (name, args), = case["optimizer"].items()
    (loss, loss_args), = case["loss"].items()
    loss_class = "".join(p.title() for p in loss.split("_"))
    loss_class = {"Mse": "MeanSquaredError"}.get(loss_class, loss_class)
    model.compile(optimizer=OPTIMIZERS[name](**args),
                  loss=getattr(keras.losses, loss_class)(**loss_args),
                  metrics=["accuracy"] if "classes" in case else None,
                  run_eagerly=True)
    return model, variables, formulas


def train(case, x, y, dtype):
    """Steps as keras.src.backend.tensorflow.trainer.train_step makes them."""
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    model, variables, formulas = compiled(case, x)
    target = target_of(case, y)
    losses, norms, after = [], [], {"0": summary(variables)}
    batches = itertools.cycle(case["batches"])
    for step in range(1, case["steps"] + 1):
        first, count = next(batches)
        xb = tf.constant(x[first:first + count].astype(dtype))
        yb = tf.constant(target[first:first + count])
        if yb.dtype.is_floating:
            yb = tf.cast(yb, dtype)
        weight = None
        if "class_weight" in case:
            weight = tf.constant([case["class_weight"][str(c)] for c in
                                  y[first:first + count]], dtype)
        with tf.GradientTape() as tape:
            p = model(xb, training=True)
            loss = model.compute_loss(x=xb, y=yb, y_pred=p,
                                      sample_weight=weight, training=True)
        grads = tape.gradient(loss, [v.value for v in model.trainable_weights])
        model.optimizer.apply(grads, model.trainable_weights)
        losses.append(loss.numpy())
        norms.append(np.sqrt(sum((np.asarray(g, np.float64) ** 2).sum()
                                 for g in grads)))
        if step in SHOW:
            after[str(step)] = summary(variables)
    return losses, norms, after, formulas, x


def check_with_train_on_batch(case, x, y, losses):
    """Keras's own train_step must see the same first losses."""
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    model, _, _ = compiled(case, x)
    target = target_of(case, y)
    weights = {int(c): w for c, w in case.get("class_weight", {}).items()}
    for (first, count), expected in zip(case["batches"], losses):
        model.reset_metrics()
        got = model.train_on_batch(x[first:first + count],
                                   target[first:first + count],
                                   class_weight=weights or None)
        got = got[0] if isinstance(got, list) else got
        assert abs(got - expected) <= 2e-6 * abs(expected), (got, expected)


def steps_case(case, x, y):
    losses, norms, after, formulas, _ = train(case, x, y, "float32")
    losses64, norms64, after64, _, _ = train(case, x, y, "float64")
    check_with_train_on_batch(case, x, y, losses)
    off = max(abs(a / b - 1) for a, b in zip(losses, losses64))
    print(f"  {case['name']}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
          f"float32 is off by {off:.1e}")
    return {**case, "weights": formulas,
            "step": [{"loss": f32(a), "norm": f32(b), "loss64": f64(c),
                      "norm64": f64(d)} for a, b, c, d in
                     zip(losses, norms, losses64, norms64)],
            "after": after, "after64": after64}


def fit_case(case, x, y, x_val, y_val):
    """fit() in file order with validation data; History must follow the rule
    of semantics.md 5: batches weighted by size, validation in one pass."""
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    model, variables, formulas = compiled(case, x)
    weights = {int(c): w for c, w in case.get("class_weight", {}).items()}
    history = model.fit(x, target_of(case, y), batch_size=case["batch_size"],
                        epochs=case["epochs"], shuffle=False, verbose=0,
                        validation_data=(x_val, target_of(case, y_val)),
                        class_weight=weights or None).history
    whole = model.test_on_batch(x_val, target_of(case, y_val))
    whole = whole[0] if isinstance(whole, list) else whole
    assert abs(whole - history["val_loss"][-1]) < 1e-6 * abs(whole)
    print(f"  {case['name']}: {history['loss'][0]:.4f} -> "
          f"{history['loss'][-1]:.4f}, val {history['val_loss'][-1]:.4f}")
    return {**case, "weights": formulas,
            "history": {k: flat32(v) for k, v in history.items()},
            "after": {"end": summary(variables)}}


S = [{"conv1d": {"filters": 24, "kernel_size": 9, "activation": "relu"}},
     {"max_pooling1d": {"pool_size": 4}}, {"flatten": {}},
     {"dense": {"units": 20, "activation": "relu"}},
     {"dense": {"units": 2, "activation": "softmax"}}]
CONV = {"conv1d": {"filters": 64, "kernel_size": 5, "padding": "same",
                   "activation": "swish"}}
P2 = [CONV, CONV, {"flatten": {}},
      {"dense": {"units": 3, "activation": "softmax"}}]
ADAM = {"adam": {"learning_rate": 0.001}}
CCE = {"categorical_crossentropy": {}}
SPARSE = {"sparse_categorical_crossentropy": {}}


def batches_of(n, size):
    return [[i, min(size, n - i)] for i in range(0, n, size)]


def case(name, model, x, y, optimizer, loss, *, batch=8, salt, classes=None,
         steps=20, **more):
    n = len(y)
    case = {"name": name, "model": model, "input": list(x.shape[1:]),
            "examples": n, "optimizer": optimizer, "loss": loss,
            "batch_size": batch, "steps": steps,
            "batches": batches_of(n, batch), "weights_salt": salt, **more}
    if classes:
        case["classes"] = classes
        case["y"] = [int(v) for v in y]
    else:
        case["y"] = flat32(y)
    return case


def data(salt):
    return {"x": {"salt": salt, "limit": 1.0, "offset": 0.0}}


def proteins(codes, unknown):
    return {"sequences": ["".join(LETTERS[c] for c in row) for row in codes],
            "alphabet": LETTERS[:20], "unknown": unknown}


def step_cases():
    cases = []

    def run(name, model, x, y, *args, **more):
        cases.append(steps_case(case(name, model, x, y, *args, **more), x, y))

    x, y = sensor_data(64, 104, 1, 1)
    sensor = {"salt": 100, "classes": 2, "data": data(1)}
    run("S", S, x, y, ADAM, CCE, **sensor)
    run("S global_clipnorm", S, x, y,
        {"adam": {"learning_rate": 0.001, "global_clipnorm": 0.5}}, CCE,
        **sensor)
    run("S sgd momentum", S, x, y,
        {"sgd": {"learning_rate": 0.05, "momentum": 0.9}}, CCE, **sensor)
    run("S batch 1", S, x, y, ADAM, CCE, batch=1, **sensor)

    for name, channels, unknown in (("P2", 21, "letter"),
                                    ("P2 unknown zero", 20, "zero")):
        codes, x, y = protein_data(64, 2, channels)
        run(name, P2, x, y, ADAM, SPARSE, salt=200, classes=3,
            data=proteins(codes, unknown))

    small = [{"conv1d": {"filters": 6, "kernel_size": 3, "use_bias": False}},
             {"batch_normalization": {}}, {"activation": {"activation": "relu"}},
             {"max_pooling1d": {"pool_size": 2}}, {"flatten": {}},
             {"dropout": {"rate": 0.0}},
             {"dense": {"units": 5}}, {"batch_normalization": {}},
             {"activation": {"activation": "swish"}},
             {"dense": {"units": 3, "activation": "softmax"}}]
    x, y = sensor_data(24, 13, 2, 3, 3)
    run("batch normalization", small, x, y, ADAM, SPARSE, salt=300, classes=3,
        data=data(3))

    plain = [{"conv1d": {"filters": 5, "kernel_size": 4, "strides": 2,
                         "activation": "relu"}}, {"flatten": {}},
             {"dense": {"units": 3, "activation": "softmax"}}]
    x, y = sensor_data(21, 15, 2, 4, 3)
    more = {"salt": 400, "classes": 3, "data": data(4)}
    run("partial batch", plain, x, y, ADAM, CCE, **more)
    x1, y1 = sensor_data(21, 13, 2, 3, 3)
    run("batch normalization, partial batch", small, x1, y1, ADAM, SPARSE,
        salt=300, classes=3, data=data(3))
    run("class weights", plain, x, y, ADAM, CCE,
        class_weight={"0": 0.5, "1": 2.0, "2": 1.25}, **more)
    smooth = {"categorical_crossentropy": {"label_smoothing": 0.1}}
    run("label smoothing", plain, x, y, ADAM, smooth, **more)
    l2 = {"l2": {"l2": 0.01}}
    regular = [{"conv1d": {**plain[0]["conv1d"], "kernel_regularizer": l2,
                           "bias_regularizer": {"l1": {"l1": 0.02}}}},
               {"flatten": {}},
               {"dense": {"units": 3, "activation": "softmax",
                          "kernel_regularizer":
                          {"l1_l2": {"l1": 0.005, "l2": 0.01}}}}]
    run("l2 regularisation", regular, x, y, ADAM, CCE, **more)

    binary = [{"average_pooling1d": {"pool_size": 3, "strides": 2,
                                     "padding": "same"}},
              {"conv1d": {"filters": 4, "kernel_size": 3,
                          "padding": "causal", "dilation_rate": 2,
                          "activation": "elu"}},
              {"global_average_pooling1d": {}},
              {"dense": {"units": 1, "activation": "sigmoid"}}]
    x, y = sensor_data(16, 12, 3, 5)
    run("sigmoid", binary, x, y, {"rmsprop": {"learning_rate": 0.01}},
        {"binary_crossentropy": {}}, salt=500, classes=2, data=data(5))

    number = [{"conv1d": {"filters": 3, "kernel_size": 3,
                          "activation": "tanh"}}, {"flatten": {}},
              {"dense": {"units": 1}}]
    x = uniform((16, 9, 1), 6, 1.0)
    y = uniform((16,), 7, 2.0)
    for loss in ("mse", "huber"):
        run(loss, number, x, y, {"sgd": {"learning_rate": 0.02}}, {loss: {}},
            salt=600, data=data(6))
    return cases


def fit_cases():
    cases = []
    plain = [{"conv1d": {"filters": 5, "kernel_size": 4, "activation": "relu"}},
             {"flatten": {}}, {"dense": {"units": 2, "activation": "softmax"}}]
    regular = [{"conv1d": {**plain[0]["conv1d"],
                           "kernel_regularizer": {"l2": {"l2": 0.01}}}},
               *plain[1:]]
    norm = [plain[0], {"batch_normalization": {"momentum": 0.9}}, *plain[1:]]
    x, y = sensor_data(21, 15, 1, 8)
    x_val, y_val = sensor_data(13, 15, 1, 9)
    for name, model, more in (
        ("fit", plain, {}), ("fit, l2 regularisation", regular, {}),
        ("fit, batch normalization", norm, {}),
        ("fit, class weights", plain, {"class_weight": {"0": 0.5, "1": 2.0}}),
    ):
        one = case(name, model, x, y, {"adam": {"learning_rate": 0.01}}, CCE,
                   salt=700, classes=2, data=data(8), steps=0, epochs=4,
                   validation={"examples": 13, **data(9),
                               "y": [int(v) for v in y_val]}, **more)
        del one["steps"], one["batches"]
        cases.append(fit_case(one, x, y, x_val, y_val))
    return cases


def main():
    write("training.json", __file__, versions("keras", "tensorflow"),
          step_cases() + fit_cases(),
          formula={"salt": 1, "limit": 0.5, "offset": 0.25,
                   "first": flat32(uniform((8,), 1, 0.5, 0.25))})


main()
