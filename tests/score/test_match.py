"""Rebuilt rows assigned to true ones, against all permutations."""

from __future__ import annotations

import itertools

import pytest
import torch

from exhume.score import metrics
from exhume.score.match import match
from support.problems import small_sphere


def random(rows: int, seed: int, d: int = 6) -> torch.Tensor:
    return torch.randn(rows, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_matching_is_the_best_of_all_permutations() -> None:
    g = torch.Generator().manual_seed(0)
    X, G = torch.randn(4, 6, generator=g, dtype=torch.float64), torch.randn(4, 6, generator=g, dtype=torch.float64)
    brute = min(sum((X[i] - G[j]).norm() for i, j in enumerate(order)) for order in itertools.permutations(range(4)))
    assert match(X, G, forgive_sign=False).distance.sum().item() == pytest.approx(brute.item())


@pytest.mark.parametrize("seed", range(3))
def test_with_signs_forgiven_it_is_the_best_of_all_permutations_and_signs(seed: int) -> None:
    X, G = random(3, seed), random(3, seed + 10)
    found = match(X, G, forgive_sign=True)
    brute = min(
        sum((X[i] - s * G[j]).norm() for i, (j, s) in enumerate(zip(order, signs, strict=True)))
        for order in itertools.permutations(range(3))
        for signs in itertools.product((1, -1), repeat=3)
    )
    assert found.distance.sum().item() == pytest.approx(brute.item())
    torch.testing.assert_close((X - found.rows(G)).norm(dim=1), found.distance)


def test_sign_is_forgiven_per_sample_and_only_when_asked() -> None:
    X = small_sphere(d=30, n=6).rows
    flipped = X.clone()
    flipped[::2] *= -1
    assert match(X, flipped, forgive_sign=True).distance.max() < 1e-12
    assert match(X, flipped, forgive_sign=False).distance.max() > 1
    rows = match(X, flipped, forgive_sign=True).rows(flipped)
    torch.testing.assert_close(rows, X)
    assert match(X, flipped, forgive_sign=True).sign == (-1, 1) * 3


def test_noise_scores_as_chance_not_better() -> None:
    """Absolute values per coordinate would score noise at about 0.8; the sign is one per sample."""
    X, noise = small_sphere(d=200, n=10, seed=0).rows, small_sphere(d=200, n=10, seed=1).rows
    assert metrics.rho(match(X, noise, forgive_sign=True).distance, 200) > 1.25


def test_missing_and_extra_rows() -> None:
    X = small_sphere(d=30, n=5).rows
    missing = match(X, X[:3], forgive_sign=False)
    assert missing.distance[3:].tolist() == pytest.approx([30**0.5] * 2)
    assert missing.index == (0, 1, 2, None, None)
    torch.testing.assert_close(missing.rows(X[:3]), torch.cat([X[:3], torch.zeros(2, 30, dtype=torch.float64)]))
    extra = match(X, torch.cat([X, -X]), forgive_sign=False)
    assert extra.distance.max() == 0


def test_no_rows_at_all_are_as_far_as_zero() -> None:
    X = random(3, 0)
    nothing = match(X, X[:0], forgive_sign=True)
    torch.testing.assert_close(nothing.distance, X.norm(dim=1))
    assert torch.equal(nothing.rows(X[:0]), torch.zeros_like(X))


def test_near_rows_do_not_lose_their_distance_to_rounding() -> None:
    X = 1e4 + random(2, 0)
    found = match(X, X + 1e-6, forgive_sign=False)
    assert found.distance.tolist() == pytest.approx([1e-6 * 6**0.5] * 2, rel=1e-4)
