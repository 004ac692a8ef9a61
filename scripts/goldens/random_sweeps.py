"""random_sweeps.json: random sweeps over tiny data against a slow, plain model.

The model here is written from sweep-file.md alone: windows and spans are lists
of positions, sharing is the intersection of sets, folds are scikit-learn's,
scales are NumPy's. A network that adds up its inputs and learns nothing shows
what it saw. Cases that the model must refuse are kept too.
"""
import random

from common import f64, versions, write

import numpy as np
import sklearn
from sklearn.model_selection import (GroupKFold, KFold, LeaveOneGroupOut,
                                     StratifiedGroupKFold, StratifiedKFold,
                                     TimeSeriesSplit)

SINGLE = ("anchor", "first", "center", "last")
COLUMNS = ("id", "g", "t", "x", "z", "y", "m", "f")


class Refused(Exception):
    """Exit code 2 is the right answer."""


# ---- what a user might ask ----

def random_window(r, classes):
    window = {"length": r.randint(1, 6), "stride": r.choice([1, 1, 2, 3]),
              "edge": r.choice(["drop", "zero", "wrap"])}
    if r.random() < .6:
        window["align"] = r.choice(["start", "center", "end"])
    many = (["mean", "max"] if not classes else
            ["majority"] + (["any", "all"] if len(classes) == 2 else []))
    window["label"] = r.choice(list(SINGLE) + many)
    if r.random() < .4:
        if window["label"] in many and r.random() < .5:
            a = r.randint(1, 3)
            window["horizon"] = [a, a + r.randint(0, 3)]
        else:
            window["horizon"] = r.randint(0, 3)
    return window


def random_cv(r, classes):
    kinds = ["kfold", "group", "blocked", "time_series", "leave_one_group_out",
             "predefined"] + (["stratified", "stratified_group"]
                              if classes else [])
    cv = {"split": r.choice(kinds)}
    if cv["split"] not in ("leave_one_group_out", "predefined"):
        cv["folds"] = r.randint(2, 4)
    if cv["split"] in ("kfold", "stratified", "group", "stratified_group") \
            and r.random() < .6:
        cv.update(shuffle=r.random() < .5, seed=r.randint(0, 99))
    if cv["split"] == "predefined":
        cv["column"] = "f"
    if r.random() < .5:
        cv["purge"] = r.random() < .6
    if r.random() < .3 and cv.get("purge") is not False:
        cv["embargo"] = r.randint(0, 4)
    if r.random() < .4:
        cv["inner"] = {"test_size": r.choice([.2, .25, .5, .34])}
    return cv


def random_sweep(r):
    records = [r.randint(1, 11) for _ in range(r.choice([1, 2, 3, 5]))]
    classes = r.choice([None, None, ["a", "b"], ["a", "b", "c"]])
    rows, t = [], 0
    for i, n in enumerate(records):
        for _ in range(n):
            rows.append({"id": f"r{i}", "g": f"g{i * 7 % 4}", "t": t,
                         "x": r.randint(-20, 20), "z": r.randint(1000, 1009),
                         "y": r.choice(classes) if classes
                         else r.randint(-9, 9),
                         "m": r.choice([1, 1, 1, 0]),
                         "f": r.choice([0, 1, 2, 2, -1])})
            t += 1
    data = {"source": "csv", "path": "d.csv", "record": "id", "time": "t",
            "gap": 1000, "features": ["x", "z"], "target": "y",
            "window": random_window(r, classes),
            "scale": r.choice(["none", "standard", "minmax"])}
    if r.random() < .3:
        data["mask"] = {"column": "m", "keep": 1}
    if r.random() < .7:
        data["group"] = "g"
    else:
        for row in rows:
            row["g"] = row["id"]
    units = len(classes) if classes else 1
    sweep = {"data": data, "cv": random_cv(r, classes),
             "model": ["flatten", {"dense": {
                 "units": units, "kernel_initializer": "ones",
                 **({"activation": "softmax"} if classes else {})}}],
             "train": {"loss": "sparse_categorical_crossentropy" if classes
                       else "mse", "epochs": 1,
                       "optimizer": {"sgd": {"learning_rate": 0}}}}
    return sweep, records, rows, classes


# ---- windows and their labels ----

def label_positions(window, start, anchor, n):
    """Positions whose labels count, and whether all must lie in the record."""
    length, h = window["length"], window.get("horizon", 0)
    if window["label"] in SINGLE:
        return [{"anchor": anchor, "first": start, "center": start + length // 2,
                 "last": start + length - 1}[window["label"]] + h], True
    if isinstance(h, list):
        last = start + length - 1
        return list(range(last + h[0], last + h[1] + 1)), True
    inside = range(start, start + length)
    if window["edge"] != "wrap":
        inside = [q for q in inside if 0 <= q < n]
    return [q + h for q in inside], h > 0


def label(kind, found, classes):
    if kind in SINGLE:
        return found[0]
    if kind == "mean":
        return sum(found) / len(found)
    if kind == "max":
        return max(found)
    if kind in ("any", "all"):
        return "ab"[{"any": any, "all": all}[kind](y == "b" for y in found)]
    return min(classes, key=lambda c: (-found.count(c), c))


def examples_of(sweep, records, rows, classes):
    window = sweep["data"]["window"]
    length, stride, edge = window["length"], window["stride"], window["edge"]
    lead = {"start": 0, "center": length // 2,
            "end": length - 1}[window.get("align", "start")]
    base, found = 0, []
    for record, n in enumerate(records):
        own = rows[base:base + n]
        starts = range(0, n - length + 1, stride) if edge == "drop" \
            else [a - lead for a in range(0, n, stride)]
        for start in starts:
            anchor = start + lead
            if "mask" in sweep["data"] and own[anchor]["m"] != 1:
                continue
            places, strict = label_positions(window, start, anchor, n)
            inputs = list(range(start, start + length))
            span = range(min(inputs + places), max(inputs + places) + 1)
            last = start + length - 1
            if edge == "wrap":
                end, last = span[-1], last % n
                places, span = [q % n for q in places], {q % n for q in span}
                inputs = [q % n for q in inputs]
            else:
                if strict and not all(0 <= q < n for q in places):
                    continue
                span = {q for q in span if 0 <= q < n}
                end, last = max(span), min(max(last, 0), n - 1)
                inputs = [q for q in inputs if 0 <= q < n]
            found.append({
                "record": record, "n": n, "span": span, "end": end,
                "start": start % n if edge == "wrap" else start,
                "inputs": [base + q for q in inputs],
                "y": label(window["label"], [own[q]["y"] for q in places],
                           classes),
                "time": own[last]["t"], "g": own[0]["g"],
                "f": own[anchor]["f"]})
        base += n
    if not found or (classes and len({e["y"] for e in found}) < 2):
        raise Refused("nothing to learn")
    return found


# ---- folds ----

def by_time(examples, members, records):
    """One record goes in its own order, several by time."""
    return sorted(members, key=lambda i: (
        examples[i]["time"] if len(records) > 1 else i, i))


def dealt(kind, k, shuffle, seed, members, examples):
    """Folds of some examples, as places among them."""
    x = np.zeros((len(members), 1))
    y = np.array([examples[i]["y"] for i in members])
    g = np.array([examples[i]["g"] for i in members])
    args = {"shuffle": shuffle, "random_state": seed if shuffle else None}
    if kind == "kfold":
        return KFold(k, **args).split(x)
    if kind == "stratified":
        return StratifiedKFold(k, **args).split(x, y)
    if kind == "group":
        return GroupKFold(k, **args).split(x, y, g)
    if kind == "stratified_group":
        return StratifiedGroupKFold(k, **args).split(x, y, g)
    if kind == "leave_one_group_out":
        return LeaveOneGroupOut().split(x, y, g)
    assert kind == "blocked"
    if k > len(members):
        raise Refused("more blocks than examples")
    everything = np.arange(len(members))
    return [(np.setdiff1d(everything, b), b)
            for b in np.array_split(everything, k)]


def shuffled(cv):
    return cv.get("shuffle", cv["split"] in ("kfold", "stratified"))


def outer(sweep, examples, rows, records):
    cv, everything = sweep["cv"], list(range(len(examples)))
    if cv["split"] == "predefined":
        names = sorted({row["f"] for row in rows} - {-1})
        if not names:
            raise Refused("no fold")
        f = np.array([e["f"] for e in examples])
        return [(np.where(f != v)[0], np.where(f == v)[0]) for v in names]
    if cv["split"] == "time_series":
        order = np.array(by_time(examples, everything, records))
        return [(np.sort(order[a]), np.sort(order[b])) for a, b in
                TimeSeriesSplit(cv["folds"]).split(order)]
    return dealt(cv["split"], cv.get("folds"), shuffled(cv), cv.get("seed", 0),
                 everything, examples)


def inner(sweep, examples, train, records):
    """(what stays in training, what is watched), both as examples."""
    cv = sweep["cv"]
    k = int(round(1 / cv["inner"]["test_size"]))
    if cv["split"] == "time_series":
        count = int(np.ceil(cv["inner"]["test_size"] * len(train)))
        order = by_time(examples, train, records)
        return sorted(order[:-count]), sorted(order[-count:])
    kind, shuffle = cv["split"], shuffled(cv)
    if kind == "predefined":
        kind, shuffle = "kfold", True
    elif kind == "leave_one_group_out":
        kind, shuffle = "group", False
    stay, watched = next(iter(dealt(kind, k, shuffle, cv.get("seed", 0), train,
                                    examples)))
    return [train[i] for i in stay], [train[i] for i in watched]


def touch(a, b):
    return a["record"] == b["record"] and bool(a["span"] & b["span"])


def trails(a, b, embargo, wrap):
    """Whether `a` has a position among the next after the end of `b`."""
    after = {q % b["n"] if wrap else q
             for q in range(b["end"] + 1, b["end"] + 1 + embargo)}
    return a["record"] == b["record"] and bool(a["span"] & after)


def fold_of(sweep, examples, train, val, records):
    cv, wrap = sweep["cv"], sweep["data"]["window"]["edge"] == "wrap"
    embargo = cv.get("embargo", 0)
    purge = embargo > 0 or cv.get(
        "purge", cv["split"] in ("blocked", "time_series"))
    fold = {"purged": 0, "embargoed": 0}

    def leave_out(part, others):
        for key, hit in (("purged", touch), ("embargoed", lambda a, b:
                                             trails(a, b, embargo, wrap))):
            kept = [i for i in part if not any(
                hit(examples[i], examples[j]) for j in others)]
            fold[key] += len(part) - len(kept)
            part = kept
        return part

    train, val = [int(i) for i in train], [int(i) for i in val]
    if purge:
        train = leave_out(train, val)
    if not train or not val:
        raise Refused("an empty part")
    if "inner" in cv:
        train, fold["inner"] = inner(sweep, examples, train, records)
        if purge:
            train = leave_out(train, fold["inner"])
        if not train or not fold["inner"]:
            raise Refused("an empty part")
    fold["shared"] = sum(any(touch(examples[i], examples[j]) for j in val)
                         for i in train)
    return {**fold, "train": train, "val": val}


# ---- what the network sees ----

def sums(sweep, rows, examples, fold, part):
    x = np.array([[row["x"], row["z"]] for row in rows], np.float64)
    fitted = x[sorted({q for i in fold["train"]
                       for q in examples[i]["inputs"]})]
    center, divisor = np.zeros(2), np.ones(2)
    if sweep["data"]["scale"] == "standard":
        center, divisor = fitted.mean(0), fitted.std(0)
    elif sweep["data"]["scale"] == "minmax":
        center, divisor = fitted.min(0), np.ptp(fitted, axis=0)
    divisor = np.where(np.ptp(fitted, axis=0) == 0, 1, divisor) \
        if sweep["data"]["scale"] != "none" else divisor
    x = (x - center) / divisor
    return [float(x[examples[i]["inputs"]].sum()) for i in fold[part]]


def answers(sweep, records, rows, classes):
    examples = examples_of(sweep, records, rows, classes)
    try:
        folds = [fold_of(sweep, examples, a, b, records)
                 for a, b in outer(sweep, examples, rows, records)]
    except ValueError as error:  # scikit-learn refuses
        raise Refused(str(error))
    case = {"examples": len(examples), "folds": []}
    if classes:
        case["classes"] = {c: sum(e["y"] == c for e in examples)
                           for c in sorted({e["y"] for e in examples})}
    for fold in folds:
        told = {k: fold[k] for k in ("purged", "embargoed", "shared")}
        told["train"] = len(fold["train"])
        told["val"] = [[i, f"r{examples[i]['record']}", examples[i]["start"]]
                       for i in fold["val"]]
        if not classes:
            told["y"] = [f64(examples[i]["y"]) for i in fold["val"]]
            told["p"] = [f64(p) for p in sums(sweep, rows, examples, fold,
                                              "val")]
            for part, name in (("train", "loss"), ("val", "val_loss"),
                               ("inner", "inner_loss")):
                if part in fold:
                    p = sums(sweep, rows, examples, fold, part)
                    told[name] = f64(np.mean([
                        (v - examples[i]["y"]) ** 2
                        for v, i in zip(p, fold[part])]))
        case["folds"].append(told)
    return case


def main():
    cases, refused, seed = [], 0, 0
    while len(cases) < 60:
        seed += 1
        sweep, records, rows, classes = random_sweep(random.Random(seed))
        csv = "\n".join([",".join(COLUMNS)] + [
            ",".join(str(row[c]) for c in COLUMNS) for row in rows]) + "\n"
        try:
            answer = answers(sweep, records, rows, classes)
        except Refused:
            refused += 1
            if refused > 10:
                continue
            answer = {"refused": True}
        cases.append({"seed": seed, "csv": csv, "sweep": sweep, **answer})
    used = versions()
    used["scikit-learn"] = sklearn.__version__
    write("random_sweeps.json", __file__, used, cases)


main()
