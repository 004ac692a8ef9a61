"""Small sweeps of the reference networks that show that Foldmill learns what bench only times."""
import json
import os
import random
import tempfile

CONV = "conv1d: {filters: 64, kernel_size: 5, padding: same, activation: swish}"
SENSOR = """name: s
data: {source: sine, samples: 8192, anomalies: 200, window: {length: 104, edge: wrap, label: any}}
model: [conv1d: {filters: 24, kernel_size: 9, activation: relu}, max_pooling1d: {pool_size: 4}, flatten,
  dense: {units: 20, activation: relu}, dense: {units: 2, activation: softmax}]
train: {loss: categorical_crossentropy, epochs: 2, batch_size: "${batch}"}
"""
LETTERS = """name: p
data: {source: sequences, path: p.csv, record: chain, sequence: {column: seq, alphabet: ACDEFGHIKLMNPQRSTVWY},
  target: {column: class, classes: HEC}, window: {length: 17, align: center}}
model: [%s, flatten, dense: {units: 3, activation: softmax}]
train: {loss: sparse_categorical_crossentropy, epochs: 2, batch_size: "${batch}"}
"""
REST = """cv: {split: holdout}
method: grid
parameters: {batch: {values: [64]}}
"""


def write(folder, net):
    with open(os.path.join(folder, "sweep.yaml"), "w") as file:
        file.write((SENSOR if net == "S" else LETTERS % ", ".join([CONV] * int(net[1:]))) + REST)
    if net == "S":
        return
    rng, alphabet = random.Random(1), "ACDEFGHIKLMNPQRSTVWY"
    with open(os.path.join(folder, "p.csv"), "w") as file:
        file.write("chain,seq,class\n")
        for chain in range(16):
            letters = rng.choices(range(20), k=128)
            seq, classes = "".join(alphabet[i] for i in letters), "".join("HEC"[i % 3] for i in letters)
            file.write(f"c{chain},{seq},{classes}\n")


def losses(net, foldmill):
    """(mean loss of the first epoch, of the last); `foldmill` runs the program and gives what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        write(folder, net)
        result = json.loads(foldmill(["run", "sweep.yaml", "--json", "--device", "cpu"], cwd=folder))
    history = result["trials"][0]["runs"][0]["history"]
    return history[0]["loss"], history[-1]["loss"]
