"""Random features as a step of a pipeline: phi(x) = act(V x), V a function of the seed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from exhume.auditing import RandomFeatureMap
from exhume.errors import ExhumeError

X = np.random.default_rng(0).normal(size=(6, 20))


@pytest.mark.parametrize(
    ("name", "value"), [("relu", lambda z: np.maximum(z, 0)), ("tanh", np.tanh), ("abs", np.abs), ("relu+tanh", None)]
)
def test_features_are_the_activation_of_v_x(name: str, value: object) -> None:
    step = RandomFeatureMap(50, activation=name, seed=3).fit(X)
    V = step.layer()["first.weight"].numpy()
    z = X @ V.T
    expected = np.maximum(z, 0) + np.tanh(z) if value is None else value(z)  # type: ignore[operator]
    np.testing.assert_allclose(step.transform(X), expected, rtol=1e-12, atol=1e-12)
    assert set(step.layer()) == {"first.weight"}


def test_cosine_features_have_phases_on_the_circle() -> None:
    step = RandomFeatureMap(4000, activation="cosine").fit(X)
    layer = {name: tensor.numpy() for name, tensor in step.layer().items()}
    b = layer["first.bias"]
    np.testing.assert_allclose(step.transform(X), np.sqrt(2) * np.cos(X @ layer["first.weight"].T + b), rtol=1e-9, atol=1e-9)
    assert 0 <= b.min() < 0.01
    assert 2 * np.pi - 0.01 < b.max() < 2 * np.pi


def test_entries_of_v_have_variance_one_over_d() -> None:
    V = RandomFeatureMap(5000).fit(X).layer()["first.weight"].numpy()
    assert V.shape == (5000, 20)
    assert V.var() * 20 == pytest.approx(1, rel=0.02)
    assert abs(V.mean()) * 20**0.5 < 0.02


def test_v_is_a_function_of_the_seed_alone() -> None:
    one, same, other = (RandomFeatureMap(30, seed=seed).fit(X).transform(X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    np.testing.assert_array_equal(clone(RandomFeatureMap(30, seed=1).fit(X)).fit(X[:2]).transform(X), one)


def test_one_feature_is_enough() -> None:
    assert RandomFeatureMap(1).fit(X).transform(X).shape == (6, 1)


def test_misuse_is_refused() -> None:
    with pytest.raises(ExhumeError, match="n_components must be at least 1, got 0"):
        RandomFeatureMap(0).fit(X)
    with pytest.raises(ExhumeError, match="Did you mean 'relu'"):
        RandomFeatureMap(activation="rellu").fit(X)
    with pytest.raises(NotFittedError):
        RandomFeatureMap().transform(X)
    with pytest.raises(ValueError, match="expecting 20 features"):
        RandomFeatureMap().fit(X).transform(X[:, :3])
