"""JAX: an epoch is one compiled lax.scan over steps that cut their windows on the device; state is donated.

Every way of writing the network is tried per row: lax.conv and hand-written products (a matrix of columns, or one
product a tap), pooling by max or by comparing strided slices, parameters as arrays or as one vector.
"""
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from peers.nets import Shuffle, make_weights, steps_of_a_chunk

VERSIONS = {"jax": jax.__version__, "jaxlib": jax.lib.__version__}


@dataclass(frozen=True)
class Way:
    conv: str = "columns"  # "lax", "columns" or "taps"
    slices: bool = False  # pooling compares strided slices
    vector: bool = False  # all parameters in one vector
    lookup: bool = False  # the first convolution of letters adds rows of its kernel


WAYS = {
    "lax.conv": Way("lax"),
    "hand-written products (columns)": Way("columns"),
    "hand-written products (taps)": Way("taps"),
}
WAYS_OF_SERIES = WAYS | {
    "hand-written products (columns, pool by slices, one vector)": Way("columns", slices=True, vector=True),
    "hand-written products (taps, one vector)": Way("taps", vector=True),
}
WAYS_OF_LETTERS = WAYS | {
    "hand-written products (columns, letters looked up)": Way("columns", lookup=True),
    "hand-written products (taps, letters looked up)": Way("taps", lookup=True),
}


def convolve(way, x, w, b, padding):
    taps, channels, filters = w.shape
    if way.conv == "lax":
        return lax.conv_general_dilated(x, w, (1,), padding.upper(), dimension_numbers=("NWC", "WIO", "NWC")) + b
    if padding == "same":
        x = jnp.pad(x, ((0, 0), ((taps - 1) // 2, taps // 2), (0, 0)))
    rows = x.shape[1] - taps + 1
    shifted = [x[:, k : k + rows] for k in range(taps)]
    if way.conv == "columns":
        return jnp.concatenate(shifted, 2) @ w.reshape(taps * channels, filters) + b
    return sum(s @ w[k] for k, s in enumerate(shifted)) + b


def look_up(letters, w, b, beyond):
    """The same convolution of one-hot rows; `beyond` is a letter whose rows are zero, for the padding."""
    taps, _, filters = w.shape
    rows = letters.shape[1]
    w = jnp.concatenate([w, jnp.zeros((taps, 1, filters))], 1)
    letters = jnp.pad(letters, ((0, 0), ((taps - 1) // 2, taps // 2)), constant_values=beyond)
    return sum(w[k][letters[:, k : k + rows]] for k in range(taps)) + b


def pool(way, x, size):
    x = x.reshape(x.shape[0], x.shape[1] // size, size, x.shape[2])
    if not way.slices:
        return x.max(2)
    most = x[:, :, 0]
    for k in range(1, size):
        most = jnp.maximum(most, x[:, :, k])
    return most


def logits(net, way, w, x):
    at = 0
    for _, _, padding in net.convs:
        if net.letters and at == 0 and way.lookup:
            x = look_up(x, w[0], w[1], net.channels)
        else:
            if net.letters and at == 0:
                x = (x[:, :, None] == jnp.arange(net.channels)).astype(jnp.float32)
            elif at == 0:
                x = x[:, :, None]
            x = convolve(way, x, w[at], w[at + 1], padding)
        if net.activation == "swish":
            x = jax.nn.silu(x)
        at += 2
    if net.pool > 1:
        x = pool(way, x, net.pool)
    if net.activation == "relu":  # after the pool, which it commutes with: a quarter of the work
        x = jnp.maximum(x, 0)
    x = x.reshape(x.shape[0], -1)
    for _ in net.hidden:
        x = jnp.maximum(x @ w[at] + w[at + 1], 0)
        at += 2
    return x @ w[at] + w[at + 1]


def cut_vector(vector, shapes):
    ends = np.cumsum([int(np.prod(s)) for s in shapes])
    return [vector[e - int(np.prod(s)) : e].reshape(s) for e, s in zip(ends, shapes)]


def make_loss(net, way, shapes):
    def loss(w, series, labels, starts):
        if way.vector:
            w = cut_vector(w, shapes)
        x = jax.vmap(lambda s: lax.dynamic_slice(series, (s,), (net.length,)))(starts)
        z = logits(net, way, w, x)
        picked = jnp.take_along_axis(z, labels[starts][:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(z, axis=1) - picked)

    return loss


def make_epoch(loss):
    def step(series, labels, state, starts):
        w, m, v, t = state
        g = jax.grad(loss)(w, series, labels, starts)
        t = t + 1
        rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        m = jax.tree.map(lambda m, g: m + (g - m) * 0.1, m, g)
        v = jax.tree.map(lambda v, g: v + (g * g - v) * 0.001, v, g)
        w = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + 1e-7), w, m, v)
        return (w, m, v, t), None

    def epoch(state, series, labels, starts):
        return lax.scan(lambda s, x: step(series, labels, s, x), state, starts)[0]

    return jax.jit(epoch, donate_argnums=0)


class Rival:
    def __init__(self, net, data):
        self.net = net
        self.series, self.labels = jnp.asarray(data.series), jnp.asarray(data.labels)
        self.evaluated = jnp.asarray(data.evaluated)

    def ways(self, batch):
        return list(WAYS_OF_LETTERS if self.net.letters else WAYS_OF_SERIES)

    def start(self, name, batch):
        return Run(self, (WAYS_OF_LETTERS if self.net.letters else WAYS_OF_SERIES)[name], batch)


class Run:
    def __init__(self, rival, way, batch):
        self.rival, self.batch = rival, batch
        weights = make_weights(rival.net)
        loss = make_loss(rival.net, way, [w.shape for w in weights])
        self.epoch, self.evaluate = make_epoch(loss), jax.jit(loss)
        w = [jnp.asarray(a) for a in weights]
        if way.vector:
            w = jnp.concatenate([a.ravel() for a in w])
        self.state = (w, jax.tree.map(jnp.zeros_like, w), jax.tree.map(jnp.zeros_like, w), jnp.float32(0))
        self.steps, self.shuffle = steps_of_a_chunk(rival.net, batch), Shuffle(rival.net)

    def deal(self):
        return self.shuffle.take(self.steps, self.batch)

    def chunk(self, starts):
        self.state = self.epoch(self.state, self.rival.series, self.rival.labels, starts)
        jax.block_until_ready(self.state)

    def parameters(self):
        return sum(a.size for a in jax.tree.leaves(self.state[0]))

    def loss(self):
        return float(self.evaluate(self.state[0], self.rival.series, self.rival.labels, self.rival.evaluated))
