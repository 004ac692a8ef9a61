"""scaling.json: scikit-learn's scalers on single columns, in double."""
from common import flat64, f64, versions, write

import numpy as np
import sklearn
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler


def columns():
    r = np.random.RandomState(9)
    return {
        "four": [1.0, 2.0, 3.0, 4.0],
        "random": r.randn(25).round(4),
        "skewed": np.exp(r.randn(30) * 2).round(4),
        "constant, not exact in binary": [14.62] * 48,
        "constant zero": [0.0] * 5,
        "count": 10000.0 + np.arange(48) % 3,                       # A12
        "pressure": 101325 + 0.0078125 * (np.arange(48) % 4),       # A12
        "offset 1e9": 1e9 + r.randn(20).round(3),
        "two values": [0.0, 1.0, 1.0, 0.0, 1.0, 1.0],
        "mostly one value": [5.0] * 12 + [6.0, 4.0, 5.5],
        "one": [3.5],
        "two": [-1.0, 2.5],
        "tiny": (r.randn(12) * 1e-6).round(9),
        "huge": (r.randn(12) * 1e12).round(0),
        "odd count": [9.0, 1.0, 4.0, 4.0, 2.0, 8.0, 3.0],
    }


def main():
    cases = []
    for label, values in columns().items():
        values = np.asarray(values, np.float64)
        x = values[:, None]
        for name, scaler in (("standard", StandardScaler()),
                             ("minmax", MinMaxScaler()),
                             ("robust", RobustScaler())):
            y = scaler.fit_transform(x)
            if name == "standard":
                center, scale = scaler.mean_, scaler.scale_
            elif name == "minmax":
                center = scaler.data_min_
                scale = np.where(scaler.data_range_ == 0, 1.0,
                                 scaler.data_range_)
            else:
                center, scale = scaler.center_, scaler.scale_
            # MinMaxScaler computes x*a + b, which cancels at large offsets.
            loss = 1e-15 * np.abs(values).max() / scale[0]
            assert np.allclose((x - center) / scale, y, rtol=1e-12,
                               atol=max(1e-12, loss)), (name, label)
            cases.append({"scale": name, "column": label, "x": flat64(values),
                          "center": f64(center[0]), "divisor": f64(scale[0]),
                          "y": flat64(y)})
    write("scaling.json", __file__, versions("scikit-learn"), cases)


main()
