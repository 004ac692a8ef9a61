"""The reference networks, their data and their first weights, the same for every contestant.

S: windows of 104 samples of the sine series of 1,049,344 samples, wrapped round the end; the label says whether
one of its 50,000 anomalies lies inside. P2, P3: windows of 17 letters of 21 (20 and "beyond the end") around each
of 50,000 positions; the class depends on the letter in the middle, so that there is something to learn.
Shapes: series [N + length - 1], window i begins at position i; kernels as Keras has them, [taps, in, out].
"""
from dataclasses import dataclass, field

import numpy as np

EVALUATED = 1024  # examples on which every contestant's loss is looked at


@dataclass(frozen=True)
class Net:
    name: str
    length: int
    channels: int
    classes: int
    convs: tuple  # (filters, taps, "same" or "valid")
    activation: str  # of the convolutions: "relu" or "swish"
    pool: int
    hidden: tuple  # units of the dense layers before the last, relu
    letters: bool
    examples: int
    parameters: int


NETS = {
    "S": Net("S", 104, 1, 2, ((24, 9, "valid"),), "relu", 4, (20,), False, 1_049_344, 11_822),
    "P2": Net("P2", 17, 21, 3, ((64, 5, "same"),) * 2, "swish", 1, (), True, 50_000, 30_595),
    "P3": Net("P3", 17, 21, 3, ((64, 5, "same"),) * 3, "swish", 1, (), True, 50_000, 51_139),
}


@dataclass
class Data:
    series: np.ndarray  # f32 or, of letters, i32; [examples + length - 1]
    labels: np.ndarray  # i32 [examples]
    evaluated: np.ndarray = field(default=None)  # i32 [EVALUATED]: first positions of windows


def make_data(net, seed=1):
    rng = np.random.default_rng(seed)
    n, w = net.examples, net.length
    if net.letters:
        text = rng.integers(0, net.channels - 1, n)
        beyond = np.full(w // 2, net.channels - 1)
        series = np.concatenate([beyond, text, beyond]).astype(np.int32)
        labels = (text % net.classes).astype(np.int32)
    else:
        series = np.sin(np.arange(n)) + rng.normal(0, 0.2, n)
        anomaly = np.zeros(n, np.int64)
        anomaly[rng.choice(n, 50_000, replace=False)] = 1
        series = (series + 0.5 * anomaly).astype(np.float32)
        sums = np.concatenate([[0], np.cumsum(np.concatenate([anomaly, anomaly[: w - 1]]))])
        series = np.concatenate([series, series[: w - 1]])
        labels = (sums[w:] - sums[:-w] > 0).astype(np.int32)
    return Data(series, labels, rng.integers(0, n, EVALUATED).astype(np.int32))


def windows(net, data, starts):
    """f32 [starts, length, channels], as Keras wants them."""
    cut = np.lib.stride_tricks.sliding_window_view(data.series, net.length)[starts]
    if net.letters:
        return np.eye(net.channels, dtype=np.float32)[cut]
    return np.ascontiguousarray(cut[:, :, None])


def make_weights(net, seed=2):
    """Kernel, bias, kernel, bias ... from front to back: Glorot's uniform kernels, zero biases."""
    rng = np.random.default_rng(seed)
    weights, rows, channels = [], net.length, net.channels

    def add(shape):
        field_size = int(np.prod(shape[:-2]))
        limit = np.sqrt(6 / (field_size * (shape[-2] + shape[-1])))
        weights.append(rng.uniform(-limit, limit, shape).astype(np.float32))
        weights.append(np.zeros(shape[-1], np.float32))

    for filters, taps, padding in net.convs:
        add((taps, channels, filters))
        rows, channels = rows - (taps - 1 if padding == "valid" else 0), filters
    width = rows // net.pool * channels
    for units in net.hidden + (net.classes,):
        add((width, units))
        width = units
    assert sum(w.size for w in weights) == net.parameters
    return weights


def reference_loss(net, weights, x, labels):
    """Mean cross-entropy in double, written as plainly as possible: x from windows()."""
    x, w = x.astype(np.float64), [a.astype(np.float64) for a in weights]
    at = 0
    for _, taps, padding in net.convs:
        if padding == "same":
            x = np.pad(x, ((0, 0), ((taps - 1) // 2, taps // 2), (0, 0)))
        rows = x.shape[1] - taps + 1
        z = sum(x[:, k : k + rows] @ w[at][k] for k in range(taps)) + w[at + 1]
        x = np.maximum(z, 0) if net.activation == "relu" else z / (1 + np.exp(-z))
        at += 2
    x = x.reshape(len(x), x.shape[1] // net.pool, net.pool, x.shape[2]).max(2).reshape(len(x), -1)
    for _ in net.hidden:
        x = np.maximum(x @ w[at] + w[at + 1], 0)
        at += 2
    z = x @ w[at] + w[at + 1]
    z -= z.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), labels]))


def steps_of_a_chunk(net, batch):
    """So many that a chunk takes something like a tenth of a second on a core of 2024."""
    microseconds = {"S": 50 + 12 * batch, "P2": 100 + 60 * batch, "P3": 150 + 110 * batch}[net.name]
    return int(min(max(100_000 // microseconds, 4), 1024))


class Shuffle:
    """Deals out the windows of one shuffled epoch after another."""

    def __init__(self, net, seed=3):
        self.rng, self.n, self.at = np.random.default_rng(seed), net.examples, net.examples

    def take(self, steps, batch):
        """i32 [steps, batch]."""
        count = steps * batch
        if self.at + count > self.n:
            repeats = -(-count // self.n)
            self.order = np.concatenate([self.rng.permutation(self.n) for _ in range(repeats)]).astype(np.int32)
            self.at = 0
        self.at += count
        return self.order[self.at - count : self.at].reshape(steps, batch)
