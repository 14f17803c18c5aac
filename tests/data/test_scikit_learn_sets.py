"""The sets that ship inside scikit-learn: the same values, in an order that has every class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn import datasets
from sklearn.utils import Bunch

from exhume.data import DataRequest, Dataset, load
from exhume.data.scikit_learn_sets import breast_cancer, diabetes, digits, wine
from exhume.errors import ExhumeError


def test_raw_values_come_back() -> None:
    data = load(DataRequest("diabetes", n=20))
    np.testing.assert_allclose(data.raw(data.rows).numpy(), datasets.load_diabetes(scaled=False).data[:20], rtol=1e-12)
    assert data.columns[:3] == ("age", "sex", "bmi")


def test_progression_is_standardised_over_the_rows_taken() -> None:
    data = diabetes(n=20)
    y = datasets.load_diabetes().target[:20]
    np.testing.assert_allclose(data.labels.numpy(), (y - y.mean()) / y.std(), rtol=1e-12)
    assert data.label_size is None


@pytest.mark.parametrize(
    ("make", "bunch", "positive"),
    [(breast_cancer, datasets.load_breast_cancer(), 1), (wine, datasets.load_wine(), 0)],
    ids=["breast-cancer", "wine"],
)
def test_classes_come_in_turn_each_in_its_own_order(make: Callable[..., Dataset], bunch: Bunch, positive: int) -> None:
    classes = np.unique(bunch.target)
    rows = [bunch.data[bunch.target == c] for c in classes]
    n = 4 * len(classes) + 1
    data = make(n=n)
    expected = np.stack([rows[i % len(classes)][i // len(classes)] for i in range(n)])
    np.testing.assert_allclose(data.raw(data.rows).numpy(), expected, rtol=1e-10)
    assert data.labels.tolist() == [1.0 if i % len(classes) == positive else -1.0 for i in range(n)]
    assert data.label_size == 1.0
    assert data.columns == tuple(bunch.feature_names)
    whole = make(n=len(bunch.data))
    assert sorted(map(tuple, whole.raw(whole.rows).numpy().round(6))) == sorted(map(tuple, bunch.data.round(6)))


def test_digits_are_pictures_with_even_against_odd() -> None:
    data, bunch = digits(n=30), datasets.load_digits()
    np.testing.assert_allclose(data.pictures(data.rows)[..., 0], bunch.images[:30] / 16, atol=1e-12)
    assert data.labels.tolist() == [1.0 - 2.0 * (digit % 2) for digit in bunch.target[:30]]
    assert (data.shape, data.kind, data.label_size) == ((1, 8, 8), "image", 1.0)


@pytest.mark.parametrize(("make", "total"), [(breast_cancer, 569), (diabetes, 442), (wine, 178), (digits, 1797)])
@pytest.mark.parametrize("excess", [0, 1])
def test_no_more_samples_than_there_are(make: Callable[..., Dataset], total: int, excess: int) -> None:
    if not excess:
        assert make(n=total).n == total
        return
    with pytest.raises(ExhumeError, match=f"has {total} samples, got n = {total + 1}. Give --n between 1 and {total}"):
        make(n=total + 1)
