"""sweep.json: whole sweeps as a user of Keras and scikit-learn would write them.

A case holds a sweep file (as JSON, which is YAML too) and what came out of the
same experiment done by hand: windows by slicing, scikit-learn's splitters and
scaler, Keras layers from constant weights, fit without shuffling, Keras's own
EarlyStopping, scikit-learn's metrics. Nothing in it is random but the folds.
The script refuses cases whose answer hangs on the last digits: predictions at
the threshold, scores or losses that nearly tie.
"""
import itertools

from common import f64, keras_tf, versions, write

import numpy as np
import sklearn
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (GroupKFold, KFold, StratifiedKFold,
                                     TimeSeriesSplit)
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight

keras, tf = keras_tf()
L = keras.layers

RECORDS, LENGTH, WINDOW = 6, 20, 6
LAYERS = {
    "conv1d": L.Conv1D, "dense": L.Dense, "flatten": L.Flatten,
    "max_pooling1d": L.MaxPooling1D, "average_pooling1d": L.AveragePooling1D,
    "batch_normalization": L.BatchNormalization,
    "layer_normalization": L.LayerNormalization,
    "global_average_pooling1d": L.GlobalAveragePooling1D,
}
OPTIMIZERS = {"sgd": keras.optimizers.SGD, "adam": keras.optimizers.Adam,
              "rmsprop": keras.optimizers.RMSprop}


def series():
    """Two noisy channels, a class that follows from them, a number, a weight."""
    r = np.random.RandomState(17)
    rows = []
    for record in range(RECORDS):
        level = 0.0
        for t in range(LENGTH):
            level = 0.7 * level + r.randn()
            a = round(10 + 3 * level + 0.5 * r.randn(), 3)
            b = round(np.sin(t / 2.5 + record) - 0.3 * level, 3)
            binary = int(level + 0.4 * r.randn() > 0.2)
            three = "low" if level < -0.6 else "mid" if level < 0.8 else "top"
            rows.append({"id": f"r{record}", "group": f"g{record // 2}",
                         "t": record * LENGTH + t, "a": a, "b": b,
                         "on": ["no", "yes"][binary], "level": three,
                         "y": round(0.5 * level + 0.1 * r.randn(), 3),
                         "w": float(r.choice([0.5, 1.0, 2.0]))})
    return rows


ROWS = series()


def csv():
    names = list(ROWS[0])
    return "\n".join([",".join(names)]
                     + [",".join(str(row[n]) for n in names)
                        for row in ROWS]) + "\n"


def windows():
    """First rows of all windows that stay inside their record."""
    return [record * LENGTH + t for record in range(RECORDS)
            for t in range(LENGTH - WINDOW + 1)]


STARTS = windows()


def column(name):
    """Of the windows' last rows."""
    return np.array([ROWS[s + WINDOW - 1][name] for s in STARTS])


def purged(train, val):
    """Leaves out training windows that share a row with a validation window."""
    taken = {s + i for v in val for s in [STARTS[v]] for i in range(WINDOW)}
    return np.array([i for i in train
                     if not any(STARTS[i] + k in taken for k in range(WINDOW))])


def folds_of(cv, y):
    n, k, index = len(STARTS), cv["folds"], np.arange(len(STARTS))
    shuffle = cv.get("shuffle", False)
    seed = cv["seed"] if shuffle else None
    if cv["split"] == "kfold":
        parts = KFold(k, shuffle=shuffle, random_state=seed).split(index)
    elif cv["split"] == "stratified":
        parts = StratifiedKFold(k, shuffle=shuffle,
                                random_state=seed).split(index, y)
    elif cv["split"] == "group":
        parts = GroupKFold(k).split(index, groups=column("group"))
    elif cv["split"] == "time_series":
        parts = TimeSeriesSplit(k).split(index)
    else:
        blocks = np.array_split(index, k)
        parts = [(np.setdiff1d(index, b), b) for b in blocks]
    purge = cv.get("purge", cv["split"] in ("blocked", "time_series"))
    return [(purged(a, b) if purge else a, b) for a, b in parts]


def scaled(train):
    """Both channels, standardised over the rows of any training window."""
    rows = sorted({STARTS[i] + k for i in train for k in range(WINDOW)})
    x = np.array([[row["a"], row["b"]] for row in ROWS], np.float64)
    x = StandardScaler().fit(x[rows]).transform(x)
    return np.stack([x[s:s + WINDOW] for s in STARTS]).astype(np.float32)


def arguments(args):
    args = dict(args)
    for key, value in args.items():
        if isinstance(value, dict):
            (name, options), = value.items()
            args[key] = {"constant": keras.initializers.Constant,
                         "l2": keras.regularizers.L2}[name](**options)
    return args


def build(sweep, shape):
    layers = []
    for entry in sweep["model"]:
        name, args = (entry, {}) if isinstance(entry, str) \
            else next(iter(entry.items()))
        layers.append(LAYERS[name](**arguments(args)))
    model = keras.Sequential([keras.Input(shape)] + layers)
    train = sweep["train"]
    (name, options), = train["optimizer"].items()
    loss, = train["loss"]
    losses = {"mse": keras.losses.MeanSquaredError,
              "binary_crossentropy": keras.losses.BinaryCrossentropy,
              "categorical_crossentropy": keras.losses.CategoricalCrossentropy,
              "sparse_categorical_crossentropy":
              keras.losses.SparseCategoricalCrossentropy}
    metric = {"mse": "mae", "binary_crossentropy": "binary_accuracy",
              "categorical_crossentropy": "categorical_accuracy",
              "sparse_categorical_crossentropy":
              "sparse_categorical_accuracy"}[loss]
    model.compile(optimizer=OPTIMIZERS[name](**options),
                  loss=losses[loss](**train["loss"][loss]),
                  metrics=[keras.metrics.get(metric)])
    model._metric = metric
    return model, loss


def targets(sweep):
    """What Keras is given, what scikit-learn is given, the class names."""
    name = sweep["data"]["target"]
    if name == "y":
        y = column("y").astype(np.float32)
        return y[:, None], y, None
    names = sorted(set(column(name)))
    y = np.searchsorted(names, column(name))
    loss, = sweep["train"]["loss"]
    if loss == "categorical_crossentropy":
        return np.eye(len(names), dtype=np.float32)[y], y, names
    return (y[:, None].astype(np.float32) if loss == "binary_crossentropy"
            else y), y, names


def spaced(values, what, least=1e-4):
    """No two different values so near that rounding might order them anew."""
    values = np.sort(np.asarray(values, np.float64))
    gaps = np.diff(values)
    assert not len(gaps) or gaps.min() > least * max(1e-3, abs(values).max()), \
        (what, gaps.min())


def fold_result(sweep, train, val):
    x, (target, y, names) = scaled(train), targets(sweep)
    model, loss = build(sweep, x.shape[1:])
    spec = sweep["train"]
    callbacks, more = [], {}
    stopping = spec.get("early_stopping")
    if stopping:
        callbacks.append(keras.callbacks.EarlyStopping(
            **{**stopping, "monitor": "val_" + model._metric
               if stopping["monitor"] in ("val_accuracy", "val_mae")
               else stopping["monitor"],
               **({"mode": "max"} if stopping["monitor"] == "val_accuracy"
                  else {})}))
    if spec.get("class_weight") == "balanced":
        weights = compute_class_weight("balanced", classes=np.unique(y[train]),
                                       y=y[train])
        more["class_weight"] = dict(zip(np.unique(y[train]).tolist(), weights))
    if "weight" in sweep["data"]:
        # Weights are read at the anchor, which is a series' first row.
        weights = np.array([ROWS[s]["w"] for s in STARTS], np.float32)
        more["sample_weight"] = weights[train]
    history = model.fit(x[train], target[train], epochs=spec["epochs"],
                        batch_size=spec["batch_size"], shuffle=False,
                        validation_data=(x[val], target[val]),
                        callbacks=callbacks, verbose=0, **more).history
    epochs, scored = len(history["loss"]), len(history["loss"])
    if stopping:
        watched = np.array(history[callbacks[0].monitor])
        if stopping["monitor"] != "val_accuracy":
            spaced(watched, "watched", 1e-5)
        if stopping.get("restore_best_weights"):
            scored = callbacks[0].best_epoch + 1
    out = model.predict(x[val], verbose=0).astype(np.float64)
    metrics = {"loss": f64(history["loss"][scored - 1]),
               "val_loss": f64(history["val_loss"][scored - 1])}
    if names is None:
        error = out[:, 0] - y[val].astype(np.float64)
        metrics["val_mae"] = f64(abs(error).mean())
    else:
        p = np.hstack([1 - out, out]) if out.shape[1] == 1 else out
        top = np.sort(p, axis=1)
        assert (top[:, -1] - top[:, -2]).min() > 1e-4, "a prediction nearly ties"
        metrics["val_accuracy"] = f64((p.argmax(1) == y[val]).mean())
        if len(np.unique(y[val])) == p.shape[1]:
            for k in range(p.shape[1]):
                for a, b in itertools.product(p[y[val] == k, k],
                                              p[y[val] != k, k]):
                    # Where all units are dead the scores are equal for good.
                    assert a == b or abs(a - b) > 1e-6 * max(a, b), \
                        "scores nearly tie"
            metrics["val_auc"] = f64(
                roc_auc_score(y[val], p[:, 1]) if p.shape[1] == 2 else
                roc_auc_score(np.eye(p.shape[1])[y[val]], p, average="macro"))
    return {"train": len(train), "val": [int(i) for i in val],
            "epochs": epochs, "scored_epoch": scored, "metrics": metrics,
            "history": {"loss": [f64(v) for v in history["loss"]],
                        "val_loss": [f64(v) for v in history["val_loss"]]}}


def case(sweep):
    keras.utils.set_random_seed(0)
    y = targets(sweep)[1]
    folds = [fold_result(sweep, a, b) for a, b in folds_of(sweep["cv"], y)]
    name = sweep["metric"]["name"]
    values = [f["metrics"][name] for f in folds]
    return {"sweep": sweep, "folds": folds, "mean": f64(np.mean(values)),
            "std": f64(np.std(values))}


def sweep(name, target, cv, model, train, metric, **data):
    return {"name": name,
            "data": {"source": "csv", "path": "d.csv", "record": "id",
                     "features": ["a", "b"], "target": target,
                     "window": {"length": WINDOW, "label": "last"},
                     "scale": "standard", **data},
            "cv": cv, "model": model,
            "train": {"shuffle": False, **train}, "metric": {"name": metric}}


def constant(value):
    return {"kernel_initializer": {"constant": {"value": value}}}


def sweeps():
    conv = {"filters": 2, "kernel_size": 3}
    yield sweep(
        "stratified", "on",
        {"split": "stratified", "folds": 3, "shuffle": True, "seed": 5},
        [{"conv1d": {**conv, "activation": "relu", **constant(0.1)}},
         {"max_pooling1d": {"pool_size": 2}}, "flatten",
         {"dense": {"units": 2, "activation": "softmax",
                    "kernel_initializer": "zeros"}}],
        {"loss": {"sparse_categorical_crossentropy": {}},
         "optimizer": {"sgd": {"learning_rate": 0.05, "momentum": 0.9}},
         "batch_size": 8, "epochs": 5}, "val_auc")
    yield sweep(
        "blocked numbers", "y", {"split": "blocked", "folds": 3},
        [{"conv1d": {**conv, "padding": "same", "activation": "tanh",
                     **constant(0.2)}}, "flatten",
         {"dense": {"units": 1, "kernel_initializer": "ones",
                    "kernel_regularizer": {"l2": {"l2": 0.001}}}}],
        {"loss": {"mse": {}},
         "optimizer": {"adam": {"learning_rate": 0.01,
                                "global_clipnorm": 0.5}},
         "batch_size": 7, "epochs": 12,
         "early_stopping": {"monitor": "val_loss", "patience": 2,
                            "restore_best_weights": True}}, "val_loss")
    yield sweep(
        "groups of three classes", "level", {"split": "group", "folds": 3},
        [{"average_pooling1d": {"pool_size": 2}},
         {"conv1d": {**conv, "activation": "swish", **constant(-0.3)}},
         "flatten",
         {"dense": {"units": 3, "activation": "softmax",
                    "kernel_initializer": "zeros"}}],
        {"loss": {"categorical_crossentropy": {"label_smoothing": 0.1}},
         "optimizer": {"rmsprop": {"learning_rate": 0.01}},
         "class_weight": "balanced", "batch_size": 16, "epochs": 12,
         "early_stopping": {"monitor": "val_loss", "patience": 1,
                            "min_delta": 0.002}}, "val_accuracy",
        group="group")
    yield sweep(
        "time, weights and normalisation", "on",
        {"split": "time_series", "folds": 3},
        [{"conv1d": {**conv, "padding": "causal", "dilation_rate": 2,
                     "use_bias": False, "kernel_initializer": "ones"}},
         {"batch_normalization": {"momentum": 0.8}},
         "global_average_pooling1d",
         {"dense": {"units": 1, "activation": "sigmoid", **constant(0.5)}}],
        {"loss": {"binary_crossentropy": {}},
         "optimizer": {"adam": {"learning_rate": 0.05, "clipnorm": 0.1}},
         "batch_size": 10, "epochs": 6}, "val_auc", weight="w", time="t")
    yield sweep(
        "folds in order, watched by accuracy", "on",
        {"split": "kfold", "folds": 4, "shuffle": False},
        ["flatten", {"dense": {"units": 3, "activation": "elu",
                               **constant(0.05)}},
         {"dense": {"units": 1, "activation": "sigmoid", **constant(-0.4)}}],
        {"loss": {"binary_crossentropy": {}},
         "optimizer": {"sgd": {"learning_rate": 0.02, "momentum": 0.5,
                               "nesterov": True, "clipvalue": 0.2}},
         "batch_size": 32, "epochs": 25,
         "early_stopping": {"monitor": "val_accuracy", "patience": 4,
                            "restore_best_weights": True}}, "val_accuracy")


def main():
    used = versions("keras", "tensorflow")
    used["scikit-learn"] = sklearn.__version__
    write("sweep.json", __file__, used, [case(s) for s in sweeps()], csv=csv())


main()
