"""The span problem whose nuisance coefficients are carried along: against dense algebra, and against elimination."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.high_dimensional import HighDimensionalSpan
from exhume.attacks.span.problem import State
from exhume.features import FeatureMemory, RandomFeatures, beyond_linear
from exhume.linalg import blocks
from support.problems import small_sphere, state_at, trained

D, N = 40, 5
Setting = tuple[HighDimensionalSpan, BlockwiseSpan, torch.Tensor, torch.Tensor]


@pytest.fixture(params=["relu", "gelu", "relu+tanh"])
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """The wide problem, the one that eliminates, the samples, and V."""
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * D * 8)  # several blocks
    data = small_sphere(d=D, n=N)
    release = trained(data, ratio=10, activation=request.param)
    features = RandomFeatures(release.model, dtype=torch.float64, memory=FeatureMemory(keep_bytes=1 << 30))
    drawn = list(features.blocks())
    assert len(drawn) > 1
    wide = HighDimensionalSpan(features, release.weights, radius=math.sqrt(D))
    plain = BlockwiseSpan(features, release.weights, radius=math.sqrt(D), nuisance=True)
    return wide, plain, data.rows, torch.cat([block.V for block in drawn])


def near(problem: BlockwiseSpan, X: torch.Tensor, error: float) -> torch.Tensor:
    """Rows at about that relative distance."""
    noise = torch.randn(X.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return problem.on_sphere(X + error * noise)


def steps(problem: BlockwiseSpan, X: torch.Tensor, count: int) -> State:
    state = state_at(problem, X)
    for _ in range(count):
        state = problem.state(problem.step(state, damping=1e-9, cg_steps=60, cg_tolerance=1e-6))
    return state


def test_theta_loses_its_best_linear_fit(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exhume.attacks.span.high_dimensional._FIT_TOLERANCE", 1e-9)
    monkeypatch.setattr("exhume.attacks.span.high_dimensional._FIT_STEPS", 100)
    wide, _, _, V = setting
    columns = torch.cat([torch.ones(len(V), 1, dtype=torch.float64), V], dim=1)
    torch.testing.assert_close(wide.linear_fit(), torch.linalg.lstsq(columns, wide.theta).solution, rtol=1e-6, atol=1e-8)


def test_a_state_is_what_it_says(setting: Setting) -> None:
    wide, _, samples, V = setting
    state = steps(wide, near(wide, samples[:3], 0.3), 1)  # two samples missing, w not at its optimum
    columns = torch.cat([torch.ones(len(V), 1, dtype=torch.float64), V], dim=1)
    features = wide.features.activation.value(V @ state.X.T)
    assert state.zeta is not None
    residual = wide.theta - features @ state.alpha - columns @ state.zeta
    torch.testing.assert_close(state.residual, residual)
    torch.testing.assert_close(state.pull, columns.T @ residual, rtol=0, atol=1e-9 * wide.energy**0.5)
    assert state.loss == pytest.approx(float(residual.square().sum()) / wide.energy)
    act = beyond_linear(wide.features.activation, scale=1.0)
    torch.testing.assert_close(state.Phi, act.value(V @ state.X.T))
    assert (state.Phi.T @ residual).abs().max() < 1e-9 * wide.energy**0.5  # alpha is solved for
    h, direction = 1e-6, near(wide, samples[:3], 1.0)

    def half_loss(X: torch.Tensor) -> float:
        Phi = act.value(V @ X.T)
        rest = state.residual + state.Phi @ state.alpha
        return 0.5 * float((rest - Phi @ torch.linalg.lstsq(Phi, rest).solution).square().sum())

    numeric = (half_loss(state.X + h * direction) - half_loss(state.X - h * direction)) / (2 * h)
    assert -float((state.gradient * direction).sum()) == pytest.approx(numeric, rel=1e-3)


def test_steps_end_where_elimination_ends(setting: Setting) -> None:
    wide, plain, samples, _ = setting
    start = near(wide, samples, 0.1)
    carried, eliminated = steps(wide, start, 9), steps(plain, start, 9)
    assert carried.loss < 1e-18
    assert eliminated.loss < 1e-18
    torch.testing.assert_close(carried.X, eliminated.X, rtol=0, atol=1e-7)
    # One meaning of zeta: signs are read from it.
    torch.testing.assert_close(
        carried.zeta, eliminated.zeta, rtol=0, atol=1e-7 * float(eliminated.zeta.norm() + carried.alpha.norm())
    )


def test_with_rows_missing_the_loss_is_that_of_elimination(setting: Setting) -> None:
    wide, plain, samples, _ = setting
    carried, eliminated = (steps(problem, near(problem, samples[:4], 0.1), 25) for problem in (wide, plain))
    assert carried.loss == pytest.approx(eliminated.loss, rel=0.01)  # undamped steps end near the minimum, not at it


def test_a_point_carries_its_linear_part(setting: Setting) -> None:
    wide, _, samples, _ = setting
    state = steps(wide, near(wide, samples, 0.1), 5)
    other = HighDimensionalSpan(wide.features, wide.theta.T, radius=math.sqrt(D))
    assert other.state(state.at).loss == pytest.approx(state.loss, rel=1e-6)
    assert state_at(other, state.X).loss > 10 * state.loss  # fitted to the weights alone, it knows nothing of the rows


def test_a_rejected_step_leaves_no_trace(setting: Setting) -> None:
    wide, _, samples, _ = setting
    state = steps(wide, near(wide, samples, 0.1), 3)
    wild = wide.step(state, damping=0.0, cg_steps=1, cg_tolerance=0.0)
    wilder = wide.state(replace(wild, X=wild.X * -0.5 + wide.on_sphere(samples.flip(0))))
    assert wilder.loss > state.loss
    assert wide.state(state.at).loss == state.loss
