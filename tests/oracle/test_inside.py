"""The problem inside a subspace, beyond the quadratic part of the features: against dense algebra, and on known samples."""

from __future__ import annotations

import math

import pytest
import torch

from conftest import small_sphere, trained
from exhume.attacks import inside
from exhume.attacks.inside import InsideProblem, quadratic_fit
from exhume.attacks.span import SpanProblem
from exhume.features import ACTIVATIONS, MatrixFeatures, RandomFeatures, beyond, hermite_coefficients
from exhume.features.activations import activation


@pytest.mark.parametrize("name", ["relu", "gelu", "abs", "relu+tanh"])
@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("order", [1, 2])
def test_an_activation_loses_its_first_terms_and_no_others(name: str, scale: float, order: int) -> None:
    left_over = beyond(ACTIVATIONS[name], order=order, scale=scale)

    def scaled(value: object) -> list[float]:
        return hermite_coefficients(type(left_over)("", "", lambda z: value(scale * z), left_over.slope, "mixed"), 6)  # type: ignore[operator]

    left, before = scaled(left_over.value), scaled(ACTIVATIONS[name].value)
    assert max(abs(c) for c in left[: order + 1]) < 1e-6
    assert left[order + 1 :] == pytest.approx(before[order + 1 :], abs=1e-6)
    z, step = torch.linspace(-3, 3, 50, dtype=torch.float64), 1e-6
    slope = (left_over.value(z + step) - left_over.value(z - step)) / (2 * step)
    torch.testing.assert_close(left_over.slope(z), slope, atol=1e-5, rtol=1e-5)


def test_the_quadratic_part_is_the_least_squares_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "_QUADRATIC_STEPS", 60)
    r, d, p = 5, 40, 600
    draw = torch.Generator().manual_seed(0)
    V = torch.randn(p, r, generator=draw, dtype=torch.float64) / math.sqrt(d)
    vector = torch.randn(p, generator=draw, dtype=torch.float64)
    M, rest = quadratic_fit(MatrixFeatures(V, activation("relu")), vector, d)
    pairs = [(i, j) for i in range(r) for j in range(i, r)]
    columns = torch.stack([d * V[:, i] * V[:, j] - float(i == j) for i, j in pairs], dim=1)
    expected = vector - columns @ torch.linalg.lstsq(columns, vector[:, None]).solution[:, 0]
    torch.testing.assert_close(rest, expected, atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(vector - rest, d * ((V @ M) * V).sum(1) - torch.trace(M), atol=1e-8, rtol=1e-8)


def test_maxima_are_samples() -> None:
    """Of eight samples in 30 dimensions the strongest suggestions name four, none twice; weights without samples name none."""
    data = small_sphere(d=30, n=8)
    release = trained(data, ratio=100)
    features = RandomFeatures(release.features, dtype=torch.float64)
    noise = torch.randn(release.weights.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def suggested(weights: torch.Tensor) -> torch.Tensor:
        problem = SpanProblem(features, weights, radius=math.sqrt(30), nuisance=True)
        inner = InsideProblem(problem, problem.theta_without_nuisance(), torch.eye(30, dtype=torch.float64))
        rows = inner.suggest(None, 4, seed=0, key=0)
        return (rows @ data.rows.T).abs() / 30 > 0.95

    assert suggested(release.weights).any(0).sum() == 4
    assert not suggested(noise).any()
