"""early_stopping.json: when Keras's EarlyStopping and Prechelt's rules stop.

Keras's callback runs here, on a model that is only a number: its weights are
the epoch. Prechelt's rules are our own few lines of semantics.md 4.4.
Values are multiples of 1/128 where a comparison could be a tie, since Keras
compares in float32 and we in double.
"""
import math

from common import f64, keras_tf, versions, write

import numpy as np

keras, tf = keras_tf()


class FakeModel:
    def __init__(self):
        self.stop_training = False
        self.epoch = 0

    def get_weights(self):
        return self.epoch

    def set_weights(self, weights):
        self.epoch = weights


def keras_case(values, args, **more):
    """Epochs count from 1 in the file; "kept" is whose weights remain."""
    callback = keras.callbacks.EarlyStopping(**args)
    model = FakeModel()
    callback.set_model(model)
    callback.on_train_begin()
    stopped = None
    for epoch, value in enumerate(values):
        model.epoch = epoch + 1
        callback.on_epoch_end(epoch, {args.get("monitor", "val_loss"): value})
        if model.stop_training:
            stopped = epoch + 1
            break
    epochs = model.epoch
    callback.on_train_end()
    best = None if callback.best is None else f64(callback.best)
    return {"rule": "keras", "args": args, "values": list(values),
            "stopped": stopped, "epochs": epochs, "kept": model.epoch,
            "best": best, **more}


def keras_cases():
    golden = [
        ([1, .9, .95, .96, .8], dict(patience=2, restore_best_weights=True),
         4, 2),
        ([1, 1, 1], dict(patience=0), 2, 2),
        ([1, .95, .89, .88], dict(patience=2, min_delta=.1), None, 4),
        ([1, .9, .8, .7, .6], dict(patience=2, baseline=.5), None, 5),
        ([1, .9, .8, .7, .6, .65], dict(patience=2, baseline=.5), 6, 6),
        ([.1, .9, .8, .9, .9], dict(patience=2, start_from_epoch=1), 5, 5),
        ([.1, .9, .8, .9, .9], dict(patience=2, start_from_epoch=1,
                                    restore_best_weights=True), 5, 3),
        ([1, .5, .9], dict(patience=5, restore_best_weights=True), None, 2),
    ]
    cases = []
    for values, args, stopped, kept in golden:
        case = keras_case(values, args, note="semantics.md 4.3")
        assert (case["stopped"], case["kept"]) == (stopped, kept), case
        cases.append(case)
    more = [
        ([.5, .6, .7, .65], dict(monitor="val_accuracy", mode="max")),
        ([.5, .5, .75, .75, .75], dict(monitor="val_accuracy", mode="max",
                                       patience=2, restore_best_weights=True)),
        ([3, 2, 1], dict(start_from_epoch=5, restore_best_weights=True)),
        ([1], dict(patience=0, restore_best_weights=True)),
        ([2, 1], dict(patience=1, baseline=1.5, restore_best_weights=True)),
        ([2, 3, 1], dict(patience=1, baseline=1.5, restore_best_weights=True)),
        ([1, 2, .5], dict(patience=1, min_delta=-.25)),
    ]
    cases += [keras_case(v, a) for v, a in more]
    r = np.random.RandomState(31)
    for _ in range(24):
        n = r.randint(6, 25)
        start = np.exp(-np.arange(n) / r.uniform(3, 12)) + r.randn(n) * .08
        values = np.round(np.clip(start, 0, None) * 128) / 128
        args = {"patience": int(r.randint(0, 6)),
                "restore_best_weights": bool(r.randint(2))}
        if r.rand() < .4:
            args["min_delta"] = float(r.randint(1, 12) / 128)
        if r.rand() < .3:
            args["baseline"] = float(np.round(r.uniform(.3, .9) * 128) / 128)
        if r.rand() < .3:
            args["start_from_epoch"] = int(r.randint(1, 6))
        if r.rand() < .35:
            values = 2 - values
            args.update(monitor="val_accuracy", mode="max")
            if "baseline" in args:
                args["baseline"] = 2 - args["baseline"]
        cases.append(keras_case([float(v) for v in values], args))
    return cases


def gl(va, t):
    """Generalisation loss in percent after epoch t (from 1)."""
    best = min(va[:t])
    if best <= 0:
        return math.inf if va[t - 1] > 0 else 0.0
    return 100 * (va[t - 1] / best - 1)


def progress(tr, t, k):
    """Training progress in per mille over the strip that ends at t."""
    strip = tr[t - k:t]
    if min(strip) <= 0:
        return 0.0
    return 1000 * (sum(strip) / (k * min(strip)) - 1)


def quotient(va, tr, t, k):
    loss, p = gl(va, t), progress(tr, t, k)
    if p <= 0:
        return math.inf if loss > 0 else 0.0
    return loss / p


def up(va, t, k, s):
    """The last s strips each ended worse than the one before."""
    return t >= (s + 1) * k and all(
        va[t - i * k - 1] > va[t - (i + 1) * k - 1] for i in range(s))


def prechelt(tr, va, args, **more):
    k = args.get("strip", 5)
    stopped, trace = None, []
    for t in range(1, len(va) + 1):
        strip_end = t % k == 0
        if args["rule"] == "gl":
            trace.append(f64(gl(va, t)))
            stop = trace[-1] == "inf" or trace[-1] > args["alpha"]
        elif args["rule"] == "pq":
            value = quotient(va, tr, t, k) if strip_end else None
            trace.append(None if value is None else f64(value))
            stop = strip_end and value > args["alpha"]
        else:
            stop = strip_end and up(va, t, k, args["strips"])
        if stop:
            stopped = t
            break
    epochs = stopped or len(va)
    case = {"rule": args["rule"], "args": args, "loss": tr, "values": va,
            "stopped": stopped, "epochs": epochs,
            "kept": 1 + va[:epochs].index(min(va[:epochs])), "own": True}
    if trace:
        case["trace"] = trace
    return {**case, **more}


def prechelt_cases():
    tr = [1, .8, .7, .65, .6, .58, .55, .54, .53, .52, .519, .518, .5175, .517,
          .5168]
    va = [1.1, .9, .85, .8, .78, .77, .76, .77, .78, .79, .8, .81, .82, .83,
          .84]
    assert abs(gl(va, 10) - 3.947368) < 1e-6
    assert abs(gl(va, 15) - 10.526316) < 1e-6
    assert abs(progress(tr, 5, 5) - 250) < 1e-6
    assert abs(progress(tr, 10, 5) - 46.153846) < 1e-6
    assert abs(progress(tr, 15, 5) - 1.664087) < 1e-6
    assert abs(quotient(va, tr, 10, 5) - .085526) < 1e-6
    assert abs(quotient(va, tr, 15, 5) - 6.325581) < 2e-6
    cases = []
    for args, stopped in (({"rule": "gl", "alpha": 2}, 9),
                          ({"rule": "gl", "alpha": 5}, 11),
                          ({"rule": "pq", "alpha": 0.5}, 15),
                          ({"rule": "up", "strips": 2}, 15),
                          ({"rule": "up", "strips": 1}, 10)):
        cases.append(prechelt(tr, va, args, note="semantics.md 4.4"))
        assert cases[-1]["stopped"] == stopped
    edge = [
        ([1, 1, 1, 1], [.5, 0, 0, .25], {"rule": "gl", "alpha": 5},
         "E_opt 0: any rise stops"),
        ([1, 1, 1, 1], [.5, 0, 0, 0], {"rule": "gl", "alpha": 5},
         "E_opt 0, no rise"),
        ([.5] * 6, [1, .5, .625, .5, .625, .625],
         {"rule": "pq", "alpha": 3, "strip": 3}, "no progress, GL > 0"),
        ([.5] * 6, [1, .75, .625, .5, .5, .5],
         {"rule": "pq", "alpha": 3, "strip": 3}, "no progress, GL = 0"),
        ([1, 0, 0, 0], [1, .5, .625, .75],
         {"rule": "pq", "alpha": 3, "strip": 2}, "training error 0"),
        ([1] * 8, [1, 1, 1, 1, 1, 1, 1, 1],
         {"rule": "up", "strips": 1, "strip": 2}, "equal is not a rise"),
        ([1] * 4, [1, .5, 1, .75], {"rule": "gl", "alpha": 50},
         "first over, not at, alpha"),
        ([1] * 3, [1, .5, .75], {"rule": "gl", "alpha": 50},
         "exactly alpha: goes on"),
    ]
    cases += [prechelt(t, v, a, note=n) for t, v, a, n in edge]
    r = np.random.RandomState(32)
    for i in range(24):
        n = r.randint(8, 40)
        base = np.exp(-np.arange(n) / r.uniform(2, 8))
        tr = [float(v) for v in (base + .2 + np.abs(r.randn(n)) * .02).round(4)]
        va = [float(v) for v in (base + .3 + np.arange(n) * r.uniform(0, .02)
                                 + r.randn(n) * .02).round(4)]
        args = [{"rule": "gl", "alpha": float(r.choice([1, 2, 3, 5]))},
                {"rule": "pq", "alpha": float(r.choice([.5, .75, 1, 2]))},
                {"rule": "up", "strips": int(r.choice([1, 2, 3]))}][i % 3]
        if i % 3 and r.rand() < .6:
            args["strip"] = int(r.choice([2, 3, 4]))
        cases.append(prechelt(tr, va, args))
    return cases


def main():
    write("early_stopping.json", __file__, versions("keras", "tensorflow"),
          keras_cases() + prechelt_cases())


main()
