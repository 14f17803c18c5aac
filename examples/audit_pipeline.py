"""Audit a scikit-learn pipeline in process, before it is published."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import exhume
from exhume.report import write_audit

N = 20


def main(out: Path = Path("report")) -> None:
    """Train on 20 patients, audit, write the report."""
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.target))
    X, y = data.data[order], data.target[order]
    features = RBFSampler(gamma="scale", n_components=10 * 30 * N, random_state=0)
    model = make_pipeline(StandardScaler(), features, RidgeClassifier(alpha=1e-3)).fit(X[:N], y[:N])
    found = exhume.audit(model, data=(X[:N], y[:N]), held_out=(X[N:], y[N:]))
    print(found.verdict.headline)
    print(f"false positives: {found.calibration.false_positives} of {found.calibration.references} held-out patients")
    print(f"report: {write_audit(found, out)}")


if __name__ == "__main__":
    main()
