"""A scikit-learn pipeline trained on breast-cancer patients, as files for the command line.

python patients_pipeline.py 50 10 pipe.skops      # patients, p / (d n), file
exhume audit --trained pipe.skops --data train.csv --holdout test.csv --out report/
"""

from __future__ import annotations

import csv
import sys

import numpy as np
import skops.io
from sklearn.datasets import load_breast_cancer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def main(n: int = 20, ratio: float = 10.0, name: str = "pipe.skops") -> None:
    """Train on n patients with p = ratio d n features; write the pipeline, its patients and all others."""
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.target))
    X, y = data.data[order], data.target[order]
    for path, rows, labels in (("train.csv", X[:n], y[:n]), ("test.csv", X[n:], y[n:])):
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*data.feature_names, "benign"])
            writer.writerows([*map(repr, map(float, row)), int(label)] for row, label in zip(rows, labels, strict=True))
    features = RBFSampler(gamma="scale", n_components=int(ratio * 30 * n), random_state=0)
    model = make_pipeline(StandardScaler(), features, RidgeClassifier(alpha=1e-3)).fit(X[:n], y[:n])
    skops.io.dump(model, name)
    print(f"{name}, train.csv with {n} patients, test.csv with {len(X) - n}")


if __name__ == "__main__":
    given = sys.argv[1:]
    main(*([int(given[0]), float(given[1]), given[2]] if given else []))
