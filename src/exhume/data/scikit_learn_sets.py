"""Real sets that ship inside scikit-learn: breast cancer, diabetes, wine (tables) and digits (8x8 pictures)."""

from __future__ import annotations

import numpy as np
from sklearn import datasets

from exhume.data.dataset import Dataset, standardised
from exhume.errors import ExhumeError


def _first(name: str, total: int, n: int) -> slice:
    if not 1 <= n <= total:
        raise ExhumeError(f"{name} has {total} samples, got n = {n}. Give --n between 1 and {total}.")
    return slice(0, n)


def _signs(condition: np.ndarray) -> np.ndarray:
    return np.where(condition, 1.0, -1.0)


def _in_turn(classes: np.ndarray) -> np.ndarray:
    """Indices with one sample of each class after another, so that every n has them all."""
    rank = np.empty(len(classes), dtype=int)
    for c in np.unique(classes):
        rank[classes == c] = np.arange((classes == c).sum())
    return np.lexsort((classes, rank))


def breast_cancer(*, n: int) -> Dataset:
    """Thirty measurements per patient, diagnoses taken in turn; label +1 for benign and -1 for malignant."""
    bunch = datasets.load_breast_cancer()
    _first("breast-cancer", len(bunch.data), n)
    return _table("breast-cancer", bunch, _in_turn(bunch.target)[:n], _signs(bunch.target == 1), label_size=1.0)


def diabetes(*, n: int) -> Dataset:
    """Ten measurements per patient, label: disease progression after a year, standardised."""
    bunch = datasets.load_diabetes(scaled=False)
    take = _first("diabetes", len(bunch.data), n)
    y = bunch.target[take]
    y = (bunch.target - y.mean()) / (y.std() or 1.0)
    return _table("diabetes", bunch, take, y, label_size=None)


def wine(*, n: int) -> Dataset:
    """Thirteen analyses per wine, cultivars taken in turn; label +1 for the first cultivar and -1 for the others."""
    bunch = datasets.load_wine()
    _first("wine", len(bunch.data), n)
    return _table("wine", bunch, _in_turn(bunch.target)[:n], _signs(bunch.target == 0), label_size=1.0)


def _table(name: str, bunch: object, take: slice | np.ndarray, labels: np.ndarray, *, label_size: float | None) -> Dataset:
    data = bunch.data[take]  # type: ignore[attr-defined]
    names = tuple(str(c) for c in bunch.feature_names)  # type: ignore[attr-defined]
    return standardised(
        name,
        data,
        labels[take],
        per_column=True,
        shape=(data.shape[1],),
        kind="table",
        columns=names,
        label_size=label_size,
    )


def digits(*, n: int) -> Dataset:
    """Handwritten digits, 8x8 pixels of 0..16, label +1 for even digits and -1 for odd ones."""
    bunch = datasets.load_digits()
    take = _first("digits", len(bunch.data), n)
    labels = _signs(bunch.target % 2 == 0)[take]
    return standardised(
        "digits", bunch.data[take], labels, per_column=False, shape=(1, 8, 8), kind="image", white=16.0, label_size=1.0
    )
