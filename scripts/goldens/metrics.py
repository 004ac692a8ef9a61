"""metrics.json: scikit-learn's metrics with zero_division=0.

Predicted classes come from the scores by Foldmill's rule: the lowest class
among the largest; one output: class 1 if it is above one half. null stands
for "the fold cannot define it".
"""
import warnings

from common import f64, ints, versions, write

import numpy as np
import sklearn
from sklearn import metrics as m

warnings.simplefilter("ignore")  # degenerate folds are wanted here

CASES = []


def one_vs_rest(metric, y, p):
    """The macro mean over classes; None where some class is absent."""
    classes = p.shape[1]
    if len(np.unique(y)) < classes:
        return None
    return float(np.mean([metric(y == c, p[:, c]) for c in range(classes)]))


def classes(y, p, note=None):
    y, p = np.asarray(y), np.asarray(p, np.float64)
    outputs = p.shape[1]
    k = max(outputs, 2)
    predicted = ((p[:, 0] > 0.5).astype(int) if outputs == 1
                 else np.argmax(p, axis=1))
    case = {"kind": "classes", "classes": k, "outputs": outputs,
            "y": ints(y), "p": [[f64(v) for v in row] for row in p],
            "predicted": ints(predicted),
            "confusion": m.confusion_matrix(y, predicted,
                                            labels=range(k)).tolist()}
    value = {
        "accuracy": m.accuracy_score(y, predicted),
        "balanced_accuracy": m.balanced_accuracy_score(y, predicted),
        "macro_f1": m.f1_score(y, predicted, average="macro", zero_division=0),
        "mcc": m.matthews_corrcoef(y, predicted),
    }
    # What the mean becomes when classes that occur nowhere count as 0.
    case["macro_f1_all_classes"] = f64(m.f1_score(
        y, predicted, labels=range(k), average="macro", zero_division=0))
    if k == 2:
        positive = p[:, -1]
        one_class = len(np.unique(y)) < 2
        value["auc"] = None if one_class else m.roc_auc_score(y, positive)
        value["pr_auc"] = (None if one_class
                           else m.average_precision_score(y, positive))
        for name, function in (("precision", m.precision_score),
                               ("recall", m.recall_score), ("f1", m.f1_score)):
            value[name] = function(y, predicted, labels=[1], average="macro",
                                   zero_division=0)
    else:
        value["auc"] = one_vs_rest(m.roc_auc_score, y, p)
        value["pr_auc"] = one_vs_rest(m.average_precision_score, y, p)
        if value["auc"] is not None:
            if np.allclose(p.sum(axis=1), 1):
                assert np.isclose(value["auc"], m.roc_auc_score(
                    y, p, multi_class="ovr", average="macro"))
            assert np.isclose(value["pr_auc"],
                              m.average_precision_score(y, p, average="macro"))
    case["metrics"] = {n: None if v is None else f64(v)
                       for n, v in value.items()}
    if note:
        case["note"] = note
    CASES.append(case)


def numbers(y, p, note=None):
    y, p = np.asarray(y, np.float64), np.asarray(p, np.float64)
    r2 = m.r2_score(y, p)
    case = {"kind": "numbers", "y": [f64(v) for v in y],
            "p": [f64(v) for v in p],
            "metrics": {"mse": f64(m.mean_squared_error(y, p)),
                        "mae": f64(m.mean_absolute_error(y, p)),
                        "r2": None if np.isnan(r2) else f64(r2)}}
    if note:
        case["note"] = note
    CASES.append(case)


def pairs(scores):
    scores = np.asarray(scores, np.float64)
    return np.c_[1 - scores, scores]


def main():
    r = np.random.RandomState(6)
    classes([0, 0, 1, 1], pairs([0, 0.5, 0.25, 0.875]), "0.5 against 0.5 is 0")
    classes([0, 0, 1, 1], [[0.0], [0.5], [0.3], [0.9]], "0.5 is not above 0.5")
    for n, step in ((12, 8), (30, 4), (50, 64), (41, 1)):
        y = r.randint(0, 2, n)
        p = np.round(np.clip(r.rand(n) * 0.6 + y * 0.3, 0, 1) * step) / step
        classes(y, pairs(p), "ties" if step < 64 else None)
        classes(y, p[:, None], "ties" if step < 64 else None)
    classes([0, 1, 0, 1, 1], pairs([0.5] * 5), "all scores equal")
    classes([1, 1, 0, 0], pairs([0, 0.125, 0.75, 1]), "all wrong")
    classes([0, 1, 0, 1], pairs([0, 1, 0.25, 0.75]), "all right")
    classes([0, 0, 0], pairs([0.25, 0.5, 0.75]), "class 0 only")
    classes([1, 1, 1], pairs([0.25, 0.5, 0.75]), "class 1 only")
    classes([0, 0, 0], pairs([0.25, 0.375, 0]), "class 0 only, all right")
    classes([1], pairs([0.75]), "one example")
    classes([0, 1, 1, 0], pairs([0.25, 0.25, 0.125, 0]), "never class 1")

    for n, k, step in ((20, 3, 4), (40, 3, 64), (60, 5, 8), (33, 4, 2)):
        y = np.r_[np.arange(k), r.randint(0, k, n - k)]
        z = r.rand(n, k) + np.eye(k)[y] * 0.4
        classes(y, np.round(z / z.sum(1, keepdims=True) * step) / step,
                "ties" if step < 64 else None)
    z = r.rand(15, 3).round(3)
    classes(r.randint(0, 2, 15), z, "class 2 absent, yet predicted")
    z[:, 2] = 0
    classes(r.randint(0, 2, 15), z, "class 2 absent and never predicted")
    classes([1] * 6, r.rand(6, 3).round(3), "one class only")
    classes([0, 1, 2, 2, 1], np.eye(3)[[0, 1, 2, 1, 1]],
            "semantics.md 2.5: mcc .7349684")
    assert abs(CASES[-1]["metrics"]["mcc"] - .7349684) < 1e-6

    for n in (2, 9, 40):
        y = r.randn(n).round(3)
        numbers(y, (y + r.randn(n) * 0.5).round(3))
    numbers([1, 2, 3], [1, 2, 3], "all right")
    numbers([2, 2, 2], [2, 2, 2], "constant target, all right")
    numbers([2, 2, 2], [2, 2.5, 1], "constant target")
    numbers([1, 2, 3], [2, 2, 2], "the mean")
    numbers([1], [2], "one example: r2 undefined")
    numbers([100000.5, 100001.25, 100002], [100000, 100001, 100002.5])
    write("metrics.json", __file__, versions("scikit-learn"), CASES)


main()
