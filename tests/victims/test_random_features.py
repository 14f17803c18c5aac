"""Random-features regression against dense closed forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.data import DataRequest, Dataset, load
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.release import Release
from exhume.victims import RandomFeaturesVictim
from exhume.victims.losses import signs_of
from support.problems import small_sphere


def design(release: Release, data: Dataset) -> torch.Tensor:
    """Phi, (n, p)."""
    return torch.cat(list(release.model.feature_blocks({})(data.rows))).T


@pytest.mark.parametrize("activation", ["relu", "tanh", "cosine"])
def test_without_a_ridge_it_is_the_minimum_norm_interpolator(activation: str) -> None:
    data = small_sphere(d=20, n=6)
    trained = RandomFeaturesVictim(p=400, activation=activation).train(data)
    Phi = design(trained.release, data)
    torch.testing.assert_close(trained.release.weights[0], torch.linalg.pinv(Phi) @ data.labels)
    assert trained.train_loss < 1e-20


@pytest.mark.parametrize("ridge", [1e-3, 1.0, 100.0])
def test_with_a_ridge_it_is_equation_169(ridge: float) -> None:
    """argmin (1/n) sum (f - y)^2 + lambda ||theta||^2, solved over the p weights."""
    data = small_sphere(d=20, n=6)
    trained = RandomFeaturesVictim(p=400, ridge=ridge).train(data)
    Phi = design(trained.release, data)
    theta = torch.linalg.solve(Phi.T @ Phi + 6 * ridge * torch.eye(400, dtype=torch.float64), Phi.T @ data.labels)
    torch.testing.assert_close(trained.release.weights[0], theta, rtol=1e-6, atol=1e-10)
    assert trained.train_loss == pytest.approx((Phi @ theta - data.labels).square().mean().item())


def test_with_fewer_features_than_labels_it_is_the_least_squares_fit() -> None:
    data = small_sphere(d=20, n=30)
    with pytest.raises(ExhumeError, match=r"p = 12 features cannot fit n = 30 labels\. Give p >= n, or --allow-underfit"):
        RandomFeaturesVictim(p=12).train(data)
    trained = RandomFeaturesVictim(p=12, allow_underfit=True).train(data)
    Phi = design(trained.release, data)
    torch.testing.assert_close(trained.release.weights[0], torch.linalg.lstsq(Phi, data.labels[:, None]).solution[:, 0])
    assert trained.train_loss > 0.01


@pytest.mark.parametrize("n", [1, 6])
def test_as_many_features_as_labels_are_enough(n: int) -> None:
    assert RandomFeaturesVictim(p=n, activation="abs").train(small_sphere(d=20, n=n)).train_loss < 1e-10


def test_identical_rows_do_not_spoil_the_fit() -> None:
    data = small_sphere(d=20, n=4)
    doubled = replace(data, rows=torch.cat([data.rows, data.rows[1:2]]), labels=torch.cat([data.labels, data.labels[1:2]]))
    once, twice = (RandomFeaturesVictim(p=300).train(one) for one in (data, doubled))
    torch.testing.assert_close(twice.release.weights, once.release.weights, rtol=1e-7, atol=1e-10)
    assert (twice.truth.n, twice.release.facts.n) == (4, None)
    assert RandomFeaturesVictim(p=300, knowledge=Knowledge(n=True)).train(doubled).release.facts.n == 5


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
def test_the_logistic_fit_descends_in_the_span_until_all_labels_have_a_margin(ridge: float) -> None:
    data = small_sphere(d=20, n=6)
    trained = RandomFeaturesVictim(p=300, loss="logistic", ridge=ridge).train(data)
    Phi, theta = design(trained.release, data), trained.release.weights[0]
    y = signs_of(data)
    loss = torch.nn.functional.softplus(-y * (Phi @ theta)).mean().item()
    assert trained.train_loss == pytest.approx(loss)
    assert 0.009 < loss <= 0.01  # it stops as soon as it may
    torch.testing.assert_close(Phi.T @ (torch.linalg.pinv(Phi.T) @ theta), theta)
    assert trained.release.facts.label_size is None


def test_logistic_steps_are_those_of_gradient_descent_on_the_weights() -> None:
    data = small_sphere(d=20, n=4)
    trained = RandomFeaturesVictim(p=300, loss="logistic", ridge=1e-2).train(data)
    Phi, y = design(trained.release, data), signs_of(data)
    step = 4 / torch.linalg.eigvalsh(Phi @ Phi.T)[-1].item()
    theta = torch.zeros(300, dtype=torch.float64)
    while torch.nn.functional.softplus(-y * (Phi @ theta)).mean() > 0.01:
        theta = (1 - step * 1e-2) * theta + step * Phi.T @ (y * torch.sigmoid(-y * (Phi @ theta)))
    torch.testing.assert_close(trained.release.weights[0], theta, rtol=1e-8, atol=1e-10)


def test_single_precision_rounds_the_same_weights() -> None:
    data = small_sphere(d=20, n=6)
    single, double = (
        RandomFeaturesVictim(p=300, dtype=dtype).train(data).release.weights for dtype in (torch.float32, torch.float64)
    )
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=1e-3, atol=1e-5)


def test_memory_does_not_change_the_weights() -> None:
    data = small_sphere(d=20, n=6)
    small, large = (RandomFeaturesVictim(p=300).train(data, memory=memory).release.weights for memory in (0, 1 << 30))
    assert torch.equal(small, large)


def test_facts_are_those_of_the_training() -> None:
    data = load(DataRequest("digits", n=10))
    facts = RandomFeaturesVictim(p=300, ridge=0.1, knowledge=Knowledge(n=True)).train(data).release.facts
    assert (facts.n, facts.ridge, facts.label_size, facts.input_norm, facts.pruned) == (10, 0.1, 1.0, None, False)
    assert facts.input_range == data.input_range
    hidden = RandomFeaturesVictim(p=300, knowledge=Knowledge(labels=False, statistics=False)).train(data).release.facts
    assert (hidden.n, hidden.label_size, hidden.input_range) == (None, None, None)
    sphere = RandomFeaturesVictim(p=300, prune=0.2).train(small_sphere(d=20, n=6)).release.facts
    assert (sphere.input_norm, sphere.pruned) == (20**0.5, True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": 0}, "p must be at least 1, got 0"),
        ({"ridge": -1.0}, "ridge must not be negative or infinite, got -1"),
        ({"ridge": float("nan")}, "ridge must not be negative or infinite, got nan"),
        ({"loss": "cross-entropy"}, "at least 2 outputs"),
        ({"prune": 1.0}, "between 0 and 1"),
        ({"prune": 0.5, "ridge": 0.1}, "--prune needs the square loss and no ridge"),
        ({"prune": 0.5, "loss": "logistic"}, "--prune needs the square loss and no ridge"),
        ({"activation": "step"}, "unknown activation 'step'"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        replace(RandomFeaturesVictim(p=100), **settings).train(small_sphere(d=20, n=5))  # type: ignore[arg-type]
