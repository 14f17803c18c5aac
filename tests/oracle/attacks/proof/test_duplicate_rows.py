"""Rows that stand for one sample: hyperplanes between rows counted one by one, and a split sample put together again."""

from __future__ import annotations

import math

import pytest
import torch

from exhume.attacks.proof import duplicate_rows
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.features import RandomFeatures, RandomFeaturesSpec
from support.problems import state_at

D, P, N = 20, 4096, 6


def rows(seed: int = 0) -> torch.Tensor:
    X = torch.randn(N, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return X * (math.sqrt(D) / X.norm(dim=1, keepdim=True))


def problem_of(X: torch.Tensor, activation: str = "relu", *, nuisance: bool = True) -> BlockwiseSpan:
    features = RandomFeatures(RandomFeaturesSpec.describe(D, P, activation, 0), dtype=torch.float64)
    V = torch.cat([block.V for block in features.blocks()])
    weights = (1.0 + torch.arange(len(X))).to(X) @ features.activation.value(V @ X.T).T
    return BlockwiseSpan(features, weights[None], radius=math.sqrt(D), nuisance=nuisance)


def split(problem: BlockwiseSpan, x: torch.Tensor) -> torch.Tensor:
    """Two rows on both sides of x, as far apart as its linear cell allows nearly."""
    V = torch.cat([block.V for block in problem.blocks()])
    way = torch.randn(D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    way -= x * (way @ x) / (x @ x)
    room = ((V @ x) / (V @ way)).abs().min()
    return problem.on_sphere(torch.stack([x + 0.9 * room * way, x - 0.9 * room * way]))


@pytest.mark.parametrize("activation", ["relu", "leaky-relu", "abs"])
@pytest.mark.parametrize("nuisance", [True, False])
def test_crossings_are_hyperplanes_between_rows(activation: str, nuisance: bool) -> None:
    problem = problem_of(rows(), activation, nuisance=nuisance)
    X = rows(1)
    V = torch.cat([block.V for block in problem.blocks()])
    cosine = X @ X.T / D
    signs = (V @ X.T > 0)[:, :, None] ^ ((V @ X.T)[:, None, :] * cosine.sign() > 0)
    counted = signs.sum(0) / (P * cosine.abs().clamp(max=1).acos() / math.pi)
    found = duplicate_rows.crossings(problem, state_at(problem, X))
    even = nuisance or activation == "abs"  # else rows at an obtuse angle cannot be one sample
    pairs = ~torch.eye(N, dtype=torch.bool) & (torch.ones_like(signs[0]) if even else cosine > 0)
    torch.testing.assert_close(found[pairs], counted.to(found)[pairs])
    assert bool((found > duplicate_rows.SEPARATE).all())


def test_smooth_features_have_no_cells() -> None:
    problem = problem_of(rows(), "tanh")
    assert bool((duplicate_rows.crossings(problem, state_at(problem, torch.cat([rows(), 1.0001 * rows()[:1]]))) == 1).all())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_split_sample_is_seen_and_put_together(sign: float) -> None:
    X = rows()
    problem = problem_of(X)
    pieces = split(problem, X[0])
    state = state_at(problem, torch.cat([pieces[:1], sign * pieces[1:], X[1:]]))
    assert state.loss < 1e-20  # both fit, though there is one row too many
    same = duplicate_rows.crossings(problem, state) < duplicate_rows.SEPARATE
    assert same.nonzero().tolist() == [[0, 1], [1, 0]]
    whole = duplicate_rows.merged(problem, state, [0, *range(2, N + 1)], same)
    torch.testing.assert_close(whole, X, rtol=0, atol=1e-9)


def test_of_equal_rows_the_costliest_stays() -> None:
    X = torch.cat([rows(), -rows()[:2]])
    costs = torch.tensor([1.0, 5.0, 3.0, 3.5, 3.2, 3.1, 2.0, 4.0])
    assert duplicate_rows.distinct_rows(duplicate_rows.repeated(X), costs).tolist() == [1, 3, 4, 5, 2, 6]
