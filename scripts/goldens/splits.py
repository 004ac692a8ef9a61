"""splits.json: scikit-learn's splitters and NumPy's MT19937, index for index."""
import warnings

from common import ints, versions, write

import numpy as np
import sklearn
from sklearn import model_selection as ms

warnings.simplefilter("ignore")  # rare classes are wanted here

CASES = []


def add(splitter, cv, n, args, y=None, groups=None, source="scikit-learn"):
    x = np.zeros((n, 1))
    case = {"splitter": splitter, "n": n, "args": args}
    if y is not None:
        case["y"] = ints(y)
    if groups is not None:
        case["groups"] = ints(groups)
    case["folds"] = [{"train": ints(train), "test": ints(test)}
                     for train, test in cv.split(x, y, groups)]
    CASES.append(case)


def shuffle_args(k, seed):
    """Arguments as a splitter takes them, and as the file shows them."""
    if seed is None:
        return {"n_splits": k, "shuffle": False}
    return {"n_splits": k, "shuffle": True, "random_state": seed}


def kfold():
    for n, k in ((10, 3), (7, 2), (13, 5), (5, 5), (41, 4), (60, 10)):
        for seed in (None, 0, 1, 42):
            args = shuffle_args(k, seed)
            add("kfold", ms.KFold(**args), n, args)
    args = shuffle_args(3, 4294967295)
    add("kfold", ms.KFold(**args), 33, args)
    args = shuffle_args(3, 42)
    add("kfold", ms.KFold(**args), 1000, args)


def label_patterns():
    r = np.random.RandomState(7)
    return [
        ([0] * 5 + [1] * 3 + [2] * 2, 3),               # semantics.md 7
        ([2, 2, 0, 1, 1, 0, 2, 0, 1, 2, 2, 1], 3),      # first seen: 2, 0, 1
        ([1, 0] * 9 + [1], 2),
        ([3] * 4 + [1] * 7 + [0] * 6 + [2] * 4, 4),
        ([0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 2, 0, 1, 1, 2], 3),  # A07: a rare class
        (r.randint(0, 2, 31), 5),
        (r.randint(0, 4, 57), 3),
        ((r.rand(60) < 0.1).astype(int), 3),
        (np.r_[[9] * 8, [5] * 11, [7] * 6], 5),         # classes with gaps
    ]


def stratified():
    for y, k in label_patterns():
        y = np.asarray(y)
        for seed in (None, 0, 3, 42):
            args = shuffle_args(k, seed)
            add("stratified_kfold", ms.StratifiedKFold(**args), len(y), args, y)


def group_patterns():
    r = np.random.RandomState(11)
    a08 = [0] * 3 + [1] * 1 + [2] * 2 + [3] * 3 + [4] * 1 + [5] * 2
    sizes = [9, 1, 4, 7, 2, 2, 5, 11, 3]
    return [
        (a08, (2, 3, 6)),
        (r.permutation(np.repeat(np.arange(9), sizes)), (2, 3, 5)),
        (r.permutation(np.repeat([10, 3, 25, 7], [6, 6, 6, 6])), (2, 4)),
        (np.sort(r.randint(0, 7, 50)), (3, 7)),
        (r.randint(100, 112, 60), (4,)),
    ]


def group():
    for groups, ks in group_patterns():
        groups = np.asarray(groups)
        for k in ks:
            for seed in (None, 0, 5):
                args = shuffle_args(k, seed)
                add("group_kfold", ms.GroupKFold(**args), len(groups), args,
                    groups=groups)


class Plain(ms.StratifiedGroupKFold):
    """_find_best_fold as plain loops would write it, in any precision."""

    real = np.float64

    def _find_best_fold(self, y_counts_per_fold, y_cnt, group_y_counts):
        best, best_eval, best_samples = None, np.inf, np.inf
        for i in range(self.n_splits):
            counts = y_counts_per_fold.copy()
            counts[i] += group_y_counts
            total = self.real(0)
            for c, class_count in enumerate(y_cnt):
                shares = [self.real(v) / self.real(class_count)
                          for v in counts[:, c]]
                mean = self.real(0)
                for share in shares:
                    mean += share
                mean /= self.real(self.n_splits)
                square = self.real(0)
                for share in shares:
                    square += (share - mean) * (share - mean)
                total += np.sqrt(square / self.real(self.n_splits))
            fold_eval = total / self.real(len(y_cnt))
            samples = y_counts_per_fold[i].sum()
            if fold_eval < best_eval or (np.isclose(fold_eval, best_eval)
                                         and samples < best_samples):
                best, best_eval, best_samples = i, fold_eval, samples
        return best


class Longer(Plain):
    real = np.longdouble


def add_stratified_group(args, y, groups):
    """Adds a case; "rounding" marks one that a last digit decides."""
    add("stratified_group_kfold", ms.StratifiedGroupKFold(**args), len(y),
        args, y, groups)

    def tests(cv):
        return [ints(test) for _, test in cv.split(y, y, groups)]

    golden = [fold["test"] for fold in CASES[-1]["folds"]]
    assert tests(Plain(**args)) == golden
    CASES[-1]["rounding"] = tests(Longer(**args)) != golden


def stratified_group():
    r = np.random.RandomState(13)
    for groups, ks in group_patterns():
        groups = np.asarray(groups)
        for classes in (2, 3):
            y = r.randint(0, classes, len(groups))
            for k in ks[:2]:
                for seed in (None, 0, 8):
                    args = shuffle_args(k, seed)
                    add_stratified_group(args, y, groups)
    # Blocks of a series, one class in few of them: what `split: blocked` deals.
    y = np.zeros(60, int)
    y[[7, 8, 9, 33, 34, 50, 51, 52, 53]] = 1
    groups = np.concatenate([[i] * len(block) for i, block in
                             enumerate(np.array_split(np.arange(60), 12))])
    for k in (2, 3, 4):
        args = shuffle_args(k, None)
        add_stratified_group(args, y, groups)


def time_series():
    for n, args in (
        (10, {"n_splits": 3}), (12, {"n_splits": 3, "gap": 2, "test_size": 2}),
        (31, {"n_splits": 5}), (31, {"n_splits": 4, "max_train_size": 6}),
        (25, {"n_splits": 3, "gap": 3}), (25, {"n_splits": 2, "test_size": 5}),
        (40, {"n_splits": 3, "test_size": 4, "gap": 5, "max_train_size": 10}),
        (6, {"n_splits": 5}), (17, {"n_splits": 2, "gap": 1,
                                    "max_train_size": 100}),
    ):
        add("time_series_split", ms.TimeSeriesSplit(**args), n, args)


def leave_one_group_out():
    for groups, _ in group_patterns():
        add("leave_one_group_out", ms.LeaveOneGroupOut(), len(groups), {},
            groups=np.asarray(groups))


def repeated():
    for n, k, repeats, seed in ((10, 3, 3, 0), (23, 5, 2, 42), (60, 2, 4, 1)):
        args = {"n_splits": k, "n_repeats": repeats, "random_state": seed}
        add("repeated_kfold", ms.RepeatedKFold(**args), n, args)
    for y, k in label_patterns()[:7]:
        args = {"n_splits": k, "n_repeats": 3, "random_state": 4}
        add("repeated_stratified_kfold", ms.RepeatedStratifiedKFold(**args),
            len(y), args, np.asarray(y))


def holdout():
    for n, size, splits, seed in ((20, 0.25, 1, 0), (21, 0.25, 3, 42),
                                  (37, 0.2, 1, 1), (11, 0.2, 2, 0),
                                  (59, 0.25, 1, 7), (60, 0.1, 2, 9),
                                  (30, 7, 1, 3)):
        args = {"n_splits": splits, "test_size": size, "random_state": seed}
        add("shuffle_split", ms.ShuffleSplit(**args), n, args)
    for y, _ in label_patterns()[:7]:
        y = np.asarray(y)
        for size, seed in ((0.25, 0), (0.4, 42)):
            args = {"n_splits": 2, "test_size": size, "random_state": seed}
            try:
                add("stratified_shuffle_split",
                    ms.StratifiedShuffleSplit(**args), len(y), args, y)
            except ValueError:
                pass  # fewer test examples than classes
    for groups, _ in group_patterns():
        for size, seed in ((0.25, 0), (0.5, 42)):
            args = {"n_splits": 2, "test_size": size, "random_state": seed}
            add("group_shuffle_split", ms.GroupShuffleSplit(**args),
                len(groups), args, groups=np.asarray(groups))
    for n in (8, 13, 20, 21, 59):
        for size in (0.25, 0.2):
            for seed in (None, 0, 42):
                args = {"test_size": size, "shuffle": seed is not None}
                if seed is not None:
                    args["random_state"] = seed
                train, test = ms.train_test_split(np.arange(n), **args)
                CASES.append({"splitter": "train_test_split", "n": n,
                              "args": args, "folds": [
                                  {"train": ints(train), "test": ints(test)}]})


def mt19937():
    cases = []
    for seed in (0, 1, 42, 5489, 19650218, 2147483648, 4294967295):
        raw = np.random.RandomState(seed)._bit_generator.random_raw(10)
        case = {"seed": seed, "uint32": ints(raw), "permutations": []}
        for n in (1, 2, 3, 10, 64, 65):
            order = np.random.RandomState(seed).permutation(n)
            shuffled = np.arange(n)
            np.random.RandomState(seed).shuffle(shuffled)
            assert (order == shuffled).all()
            case["permutations"].append({"n": n, "order": ints(order)})
        two = np.random.RandomState(seed)  # one stream, one after the other
        case["stream"] = [{"n": n, "order": ints(two.permutation(n))}
                          for n in (7, 20, 7)]
        cases.append(case)
    return cases


def main():
    kfold()
    stratified()
    group()
    stratified_group()
    time_series()
    leave_one_group_out()
    repeated()
    holdout()
    write("splits.json", __file__, versions("scikit-learn"), CASES,
          mt19937=mt19937())


main()
