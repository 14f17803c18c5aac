from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from exhume.features import RandomFeatures
from exhume.score import metrics
from exhume.score.match import match
from support.problems import small_sphere, trained


def test_matching_is_the_best_of_all_permutations() -> None:
    g = torch.Generator().manual_seed(0)
    X, G = torch.randn(4, 6, generator=g, dtype=torch.float64), torch.randn(4, 6, generator=g, dtype=torch.float64)
    brute = min(sum((X[i] - G[j]).norm() for i, j in enumerate(order)) for order in itertools.permutations(range(4)))
    assert match(X, G, forgive_sign=False).distance.sum().item() == pytest.approx(brute.item())


def test_sign_is_forgiven_per_sample_and_only_when_asked() -> None:
    X = small_sphere(d=30, n=6).rows
    flipped = X.clone()
    flipped[::2] *= -1
    assert match(X, flipped, forgive_sign=True).distance.max() < 1e-12
    assert match(X, flipped, forgive_sign=False).distance.max() > 1
    rows = match(X, flipped, forgive_sign=True).rows(flipped)
    torch.testing.assert_close(rows, X)


def test_noise_scores_as_chance_not_better() -> None:
    """Absolute values per coordinate would score noise at about 0.8; the sign is one per sample."""
    X, noise = small_sphere(d=200, n=10, seed=0).rows, small_sphere(d=200, n=10, seed=1).rows
    assert metrics.rho(match(X, noise, forgive_sign=True).distance, 200) > 1.25


def test_missing_and_extra_rows() -> None:
    X = small_sphere(d=30, n=5).rows
    missing = match(X, X[:3], forgive_sign=False)
    assert missing.distance[3:].tolist() == pytest.approx([30**0.5] * 2)
    extra = match(X, torch.cat([X, -X]), forgive_sign=False)
    assert extra.distance.max() == 0


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


def test_identical_pictures_are_perfect_and_noise_is_not() -> None:
    rng = np.random.default_rng(0)
    pictures = rng.random((3, 16, 16, 3))
    assert metrics.picture_quality(pictures, pictures) == (100.0, pytest.approx(1.0))
    psnr, ssim = metrics.picture_quality(pictures, rng.random((3, 16, 16, 3)))
    assert psnr < 12
    assert ssim < 0.3
