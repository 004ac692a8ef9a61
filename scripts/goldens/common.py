"""What all golden scripts share: deterministic Keras, numbers, the JSON file.

Import this before keras or tensorflow: it sets the backend and turns off
everything that would make two runs of a script differ.
"""
import os
import platform
import sys
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json

import numpy as np

OUT = Path(__file__).resolve().parents[2] / "tests" / "goldens"


def keras_tf():
    """Keras on TensorFlow, single-threaded and deterministic."""
    import keras
    import tensorflow as tf

    assert keras.backend.backend() == "tensorflow"
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(0)
    return keras, tf


def versions(*names):
    """{"python": ..., name: ...} of the libraries a file's numbers rest on."""
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for name in names:
        module = sys.modules[{"scikit-learn": "sklearn"}.get(name, name)]
        found[name] = module.__version__.split("+")[0]
    return found


def f32(value):
    """The shortest decimal that a double reader, then a cast, turns back."""
    value = np.float32(value)
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    number = float(str(value))
    return number if np.float32(number) == value else float(value)


def f64(value):
    value = float(value)
    if not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def flat32(values):
    return [f32(v) for v in np.asarray(values).reshape(-1)]


def flat64(values):
    return [f64(v) for v in np.asarray(values, np.float64).reshape(-1)]


def ints(values):
    return [int(v) for v in np.asarray(values).reshape(-1)]


def tensor(values):
    """A float32 tensor as {"shape": [...], "data": [flat, row-major]}."""
    values = np.asarray(values)
    return {"shape": list(values.shape), "data": flat32(values)}


def write(name, script, used, cases, **more):
    """One case a line, so that a changed case is a changed line in a diff."""
    def dump(value):
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    lines = ['{"script":' + dump("scripts/goldens/" + Path(script).name),
             ',"versions":' + dump(used)]
    for key, value in more.items():
        lines.append("," + dump(key) + ":" + dump(value))
    lines.append(',"cases":[')
    lines.append(",\n".join(dump(case) for case in cases))
    lines.append("]}")
    path = OUT / name
    path.write_text("\n".join(lines) + "\n")
    print(f"{name}: {len(cases)} cases, {path.stat().st_size} bytes")
