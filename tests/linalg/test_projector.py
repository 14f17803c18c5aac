"""Least squares through small Grams against the dense one, with and without nuisance columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from exhume.linalg.projector import Projector

P, M, Q, K = 80, 6, 4, 2


def random(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


Setting = tuple[Projector, torch.Tensor, torch.Tensor]


@pytest.fixture(params=[False, True], ids=["plain", "with nuisance"])
def setting(request: pytest.FixtureRequest) -> Setting:
    """A projector, the candidates' columns (P, M), and the nuisance columns (P, Q or 0)."""
    columns, N = random(P, M, seed=0), random(P, Q if request.param else 0, seed=1)
    gram = columns.T @ columns
    if not request.param:
        return Projector.build(gram, None, None, jitter=1e-15), columns, N
    return Projector.build(gram, N.T @ columns, torch.linalg.inv(N.T @ N), jitter=1e-15), columns, N


def fit(columns: torch.Tensor, N: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.linalg.lstsq(torch.cat([columns, N], dim=1).numpy(), theta.numpy(), rcond=None)[0])


def residual(columns: torch.Tensor, N: torch.Tensor, theta: torch.Tensor) -> float:
    both = torch.cat([columns, N], dim=1)
    return float((theta - both @ fit(columns, N, theta)).square().sum())


def solved(setting: Setting, theta: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    projector, columns, N = setting
    return projector.solve(columns.T @ theta, N.T @ theta if N.shape[1] else None)


def test_coefficients_are_the_least_squares_ones(setting: Setting) -> None:
    _, columns, N = setting
    theta = random(P, K, seed=2)
    alpha, zeta = solved(setting, theta)
    expected = fit(columns, N, theta)
    torch.testing.assert_close(alpha, expected[:M])
    if N.shape[1]:
        torch.testing.assert_close(zeta, expected[M:])
    else:
        assert zeta is None


def test_the_inverse_diagonal_is_that_of_the_candidates_left_by_the_nuisance(setting: Setting) -> None:
    projector, columns, N = setting
    both = torch.cat([columns, N], dim=1)
    torch.testing.assert_close(projector.inverse_diagonal, torch.linalg.inv(both.T @ both).diagonal()[:M])


def test_a_removal_costs_what_the_residual_gains(setting: Setting) -> None:
    projector, columns, N = setting
    theta = random(P, K, seed=2)
    costs = projector.removal_cost(solved(setting, theta)[0])
    whole = residual(columns, N, theta)
    for i in range(M):
        rest = columns[:, [j for j in range(M) if j != i]]
        assert costs[i].item() == pytest.approx(residual(rest, N, theta) - whole)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 1.0])
def test_elimination_is_the_greedy_one(setting: Setting, share: float) -> None:
    """Each round tries all removals and takes the cheapest, as long as the gains stay within the budget."""
    projector, columns, N = setting
    theta = random(P, K, seed=2)
    whole = residual(columns, N, theta)
    budget = share * (float(theta.square().sum()) - whole)
    left = list(range(M))
    while len(left) > 1:
        tried = {i: residual(columns[:, [j for j in left if j != i]], N, theta) for i in left}
        cheapest = min(tried, key=tried.__getitem__)
        if tried[cheapest] - whole > budget:
            break
        left.remove(cheapest)
    assert projector.supported(solved(setting, theta)[0], budget) == left


def test_of_two_columns_that_say_the_same_one_stays() -> None:
    columns = random(P, 4, seed=0)
    columns[:, 2] = columns[:, 0] + 1e-6 * random(P, 1, seed=5)[:, 0]
    theta = columns[:, :2] @ torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    projector = Projector.build(columns.T @ columns, None, None, jitter=1e-15)
    alpha, _ = projector.solve(columns.T @ theta, None)
    kept = projector.supported(alpha, 1e-6)
    assert len(kept) == 2
    assert 1 in kept
    assert (0 in kept) != (2 in kept)


def test_elimination_never_removes_the_last_column_and_keeps_what_it_was_given(setting: Setting) -> None:
    projector, _, _ = setting
    alpha = random(M, K, seed=3)
    before = alpha.clone()
    assert len(projector.supported(alpha, torch.inf)) == 1
    assert torch.equal(alpha, before)
