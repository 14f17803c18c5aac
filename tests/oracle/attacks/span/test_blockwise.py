"""The block-wise span problem against dense algebra of a few lines, in float64."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks.span.blockwise import BlockwiseSpan, State
from exhume.features import RandomFeatures
from exhume.linalg import blocks
from support.problems import small_sphere, state_at, trained


@pytest.fixture(params=["relu", "tanh", "cosine"])
def setting(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[BlockwiseSpan, State, torch.Tensor, torch.Tensor]:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * 20 * 8)  # several blocks
    data = small_sphere(d=20, n=5)
    release = trained(data, ratio=7, activation=request.param)
    features = RandomFeatures(release.model, dtype=torch.float64)
    problem = BlockwiseSpan(features, release.weights, radius=20**0.5, nuisance=True)
    X = problem.on_sphere(torch.randn(4, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64))
    drawn = list(features.blocks())
    V = torch.cat([b.V for b in drawn])
    ones = torch.ones(len(V), 1, dtype=torch.float64)
    even = ones if drawn[0].even is None else torch.cat([b.even for b in drawn])
    odd = ones if drawn[0].odd is None else torch.cat([b.odd for b in drawn])
    assert len(drawn) > 1
    return problem, state_at(problem, X), V, torch.cat([even, odd * V], dim=1)


def columns(state: State, N: torch.Tensor) -> torch.Tensor:
    return torch.cat([state.Phi, N], dim=1)


def test_state_is_the_least_squares_fit(setting: tuple) -> None:
    problem, state, _, N = setting
    fit = torch.linalg.lstsq(columns(state, N), problem.theta).solution
    residual = problem.theta - columns(state, N) @ fit
    torch.testing.assert_close(state.alpha, fit[: state.m], rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(state.residual, residual, rtol=1e-8, atol=1e-12)
    assert state.loss == pytest.approx((residual.norm() / problem.theta.norm()).item() ** 2)


def test_gradient_is_the_derivative_of_the_loss(setting: tuple) -> None:
    problem, state, _, _ = setting
    direction = torch.randn(state.X.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    h = 1e-6
    energy = problem.energy
    up, down = state_at(problem, state.X + h * direction), state_at(problem, state.X - h * direction)
    numeric = energy * (up.loss - down.loss) / (2 * h)
    assert -2 * (state.gradient * direction).sum().item() == pytest.approx(numeric, rel=1e-4)


def jacobian(problem: BlockwiseSpan, state: State, V: torch.Tensor, N: torch.Tensor) -> torch.Tensor:
    blocks_of_rows = [state.alpha[i, 0] * state.slopes[:, i, None] * V for i in range(state.m)]
    return torch.cat([*blocks_of_rows, state.Phi, N], dim=1)


def test_gauss_newton_product_is_the_dense_one(setting: tuple) -> None:
    problem, state, V, N = setting
    J = jacobian(problem, state, V, N)
    g = torch.Generator().manual_seed(3)
    dX = torch.randn(state.X.shape, generator=g, dtype=torch.float64)
    da, dz = torch.randn(state.m, 1, generator=g, dtype=torch.float64), torch.randn(N.shape[1], 1, generator=g, dtype=torch.float64)
    dense = J.T @ (J @ torch.cat([dX.flatten(), da.flatten(), dz.flatten()]))
    product = problem.gauss_newton_product(state, (dX, da, dz))
    torch.testing.assert_close(torch.cat([part.flatten() for part in product]), dense, rtol=1e-9, atol=1e-9)


def test_removal_cost_is_what_removal_costs(setting: tuple) -> None:
    problem, state, _, _ = setting
    costs = problem.removal_costs(state)
    for i in range(state.m):
        without = state_at(problem, state.X[[j for j in range(state.m) if j != i]])
        assert without.loss - state.loss == pytest.approx(costs[i].item(), rel=1e-6)


def test_elimination_spends_its_budget_and_no_more(setting: tuple) -> None:
    problem, state, _, _ = setting
    budget = 0.5 * problem.removal_costs(state).sum().item()
    kept = state.projector.supported(state.alpha, budget * problem.energy)
    assert 0 < len(kept) < state.m
    lean = state_at(problem, state.X[kept])
    spent = lean.loss - state.loss
    assert spent <= budget * (1 + 1e-9)
    assert len(kept) == 1 or spent + problem.removal_costs(lean).min() > budget


def test_moment_product_is_the_dense_one(setting: tuple) -> None:
    problem, _, V, N = setting
    weighted = (problem.theta * N[:, :1])[:, 0]
    M2 = problem.d * V.T @ (weighted[:, None] * V) - weighted.sum() * torch.eye(problem.d, dtype=torch.float64)
    W = torch.randn(problem.d, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    torch.testing.assert_close(problem.moment_product(problem.theta[:, 0], W), M2 @ W, rtol=1e-9, atol=1e-9)


def test_growing_the_feature_set_gives_the_same_problem(setting: tuple) -> None:
    problem, state, _, _ = setting
    weights = problem.theta.T
    grown = BlockwiseSpan(problem.features, weights, radius=problem.radius, nuisance=True, count=256)
    assert grown.p < problem.p
    few = state_at(grown, state.X).loss
    larger = grown.extended(problem.p)
    assert larger.p == problem.p
    assert state_at(grown, state.X).loss == few  # the smaller problem stays as it was
    assert state_at(larger, state.X).loss == pytest.approx(state.loss, rel=1e-10)
