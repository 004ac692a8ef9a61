"""Keras: one long model.fit on arrays cut beforehand, timed by a callback; KERAS_BACKEND says on what.

Compiled by XLA or not, and with several steps_per_execution. Starting a fit is not timed, nor is its first piece.
"""
import time

import keras
import numpy as np
from keras import layers

from peers.nets import make_weights, windows

BACKEND = keras.backend.backend()
VERSIONS = {"keras": keras.__version__}
if BACKEND == "tensorflow":
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    VERSIONS["tensorflow"] = tf.__version__
else:
    import jax

    VERSIONS["jax"] = jax.__version__

SHORTEST = 0.05  # seconds of a chunk
NEVER = 1_000_000_000


def build(net):
    network = keras.Sequential([keras.Input((net.length, net.channels))])
    for filters, taps, padding in net.convs:
        network.add(layers.Conv1D(filters, taps, padding=padding, activation=net.activation))
    if net.pool > 1:
        network.add(layers.MaxPooling1D(net.pool))
    network.add(layers.Flatten())
    for units in net.hidden:
        network.add(layers.Dense(units, activation="relu"))
    network.add(layers.Dense(net.classes, activation="softmax"))
    network.set_weights(make_weights(net))
    return network


class Clock(keras.callbacks.Callback):
    """Stops the fit after `seconds` and at least `least` steps; chunks are (steps, seconds)."""

    def __init__(self, seconds, least):
        super().__init__()
        self.seconds, self.least, self.chunks, self.began, self.steps = seconds, least, [], None, 0

    def on_train_batch_end(self, batch, logs=None):
        float(logs["loss"])  # waits for a backend that computes behind our back
        now = time.perf_counter()
        per = self.model.steps_per_execution
        self.steps += per
        if self.began is None:  # the first piece traces, compiles and fills the pipeline
            self.began = self.mark = now
            self.marked = self.steps
            return
        if now - self.mark >= SHORTEST:
            self.chunks.append((self.steps - self.marked, now - self.mark))
            self.mark, self.marked = now, self.steps
        if now - self.began >= self.seconds and self.steps >= self.least and self.chunks:
            self.model.stop_training = True


class Rival:
    def __init__(self, net, data):
        self.net = net
        self.x = windows(net, data, slice(None))
        self.y = data.labels
        self.evaluated = self.x[data.evaluated], self.y[data.evaluated]
        if BACKEND == "tensorflow":  # else every fit would copy all of it first
            self.x, self.y = tf.convert_to_tensor(self.x), tf.convert_to_tensor(self.y)

    def ways(self, batch):
        pieces = (50, 400) if batch <= 64 else (8, 50) if batch <= 512 else (4,)
        if BACKEND == "jax":
            return [f"steps_per_execution={n}" for n in pieces]
        return [f"jit_compile={jit}, steps_per_execution={n}" for jit in (True, False) for n in pieces]

    def start(self, name, batch):
        return Run(self, name, batch)


class Run:
    def __init__(self, rival, name, batch):
        options = dict(word.split("=") for word in name.split(", "))
        self.rival, self.batch, self.network = rival, batch, build(rival.net)
        self.network.compile(
            optimizer=keras.optimizers.Adam(1e-3),
            loss="sparse_categorical_crossentropy",
            jit_compile=options.get("jit_compile", "True") == "True",
            steps_per_execution=int(options["steps_per_execution"]),
        )

    def slice(self, seconds, least=0):
        clock = Clock(seconds, least)
        self.network.fit(
            self.rival.x, self.rival.y, batch_size=self.batch, epochs=NEVER, verbose=0, shuffle=True,
            callbacks=[clock],
        )
        return clock.chunks

    def parameters(self):
        return self.network.count_params()

    def loss(self):
        """By NumPy, from the predicted probabilities: fit's own loss is a running mean."""
        x, y = self.rival.evaluated
        p = np.asarray(self.network.predict_on_batch(x), np.float64)
        return float(np.mean(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-7))))
