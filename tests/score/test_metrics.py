"""The measures against their formulas."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from exhume.features import RandomFeatures
from exhume.score import metrics
from support.problems import small_sphere, trained


def test_rho_is_one_for_a_guess_of_zero_on_the_sphere() -> None:
    X = small_sphere(d=30, n=6).rows
    assert metrics.rho(X.norm(dim=1), 30) == pytest.approx(1.0)
    assert metrics.rho(torch.tensor([1.0, 2.0, 6.0]), 9) == pytest.approx(1.0)


def test_span_residual_matches_the_dense_projector() -> None:
    data = small_sphere(d=12, n=4)
    release = trained(data, ratio=5)
    features = RandomFeatures(release.model, dtype=torch.float64)
    guess = small_sphere(d=12, n=4, seed=9).rows
    V = torch.cat([b.V for b in features.blocks()])
    A, B = torch.relu(V @ guess.T), torch.relu(V @ data.rows.T)
    Q = torch.linalg.qr(A)[0]
    dense = (B - Q @ (Q.T @ B)).norm(dim=0).mean() / len(V) ** 0.5

    def blocks(X: torch.Tensor) -> Iterator[torch.Tensor]:
        values = torch.cat([features.activation.value(block.preactivation(X)) for block in features.blocks()])
        return iter(values.split(30))

    assert metrics.span_residual(blocks, data.rows, guess) == pytest.approx(dense.item(), rel=1e-8)
    assert metrics.span_residual(blocks, data.rows, data.rows) < 1e-7


@pytest.mark.parametrize("size", [1, 7, 500])
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_the_span_residual_does_not_depend_on_the_blocks_or_the_number_of_rows(size: int, rows: int) -> None:
    draw = torch.Generator().manual_seed(0)
    V, X, G = (torch.randn(n, 5, generator=draw, dtype=torch.float64) for n in (60, 3, rows))
    A, B = torch.tanh(V @ G.T), torch.tanh(V @ X.T)
    dense = (B - A @ torch.linalg.pinv(A) @ B).norm(dim=0).mean() / 60**0.5 if rows else B.norm(dim=0).mean() / 60**0.5
    assert metrics.span_residual(lambda Z: iter(torch.tanh(V @ Z.T).split(size)), X, G) == pytest.approx(dense.item())


def test_identical_pictures_are_perfect_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    pictures = rng.random((3, 16, 16, 3))
    assert metrics.picture_quality(pictures, pictures) == (100.0, pytest.approx(1.0))
    psnr, ssim = metrics.picture_quality(pictures, rng.random((3, 16, 16, 3)))
    assert psnr < 12
    assert ssim < 0.3


def test_psnr_is_that_of_the_mean_squared_error() -> None:
    pictures = np.full((2, 8, 8, 1), 0.5)
    psnr, _ = metrics.picture_quality(pictures, pictures + np.array([0.1, 0.01]).reshape(2, 1, 1, 1))
    assert psnr == pytest.approx((20 + 40) / 2)


@pytest.mark.parametrize("side", [3, 4, 6, 28])
def test_ssim_of_constant_pictures_is_that_of_their_means(side: int) -> None:
    """Without variance (2 a b + c) / (a^2 + b^2 + c), c = 0.01^2, is left, whatever the window that the side allows."""
    a, b, c = 0.3, 0.6, 0.01**2
    _, ssim = metrics.picture_quality(np.full((1, side, side + 1, 1), a), np.full((1, side, side + 1, 1), b))
    assert ssim == pytest.approx((2 * a * b + c) / (a * a + b * b + c))


def test_pictures_too_small_for_a_window_are_equal_or_not() -> None:
    pictures = np.full((2, 2, 5, 1), 0.5)
    other = pictures.copy()
    other[1] = 0.6
    psnr, ssim = metrics.picture_quality(pictures, other)
    assert (psnr, ssim) == (pytest.approx((100 + 20) / 2), 0.5)


def test_column_errors_are_medians_relative_to_the_spread() -> None:
    truth = torch.tensor([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]], dtype=torch.float64)
    guess = truth + torch.tensor([[0.1, 1.0], [-0.2, 3.0], [9.0, 2.0]], dtype=torch.float64)
    first, second = metrics.column_errors(truth, guess)
    assert first == pytest.approx(0.2 / math.sqrt(8 / 3))
    assert second == pytest.approx(2.0)  # a constant column has no spread: the error itself
