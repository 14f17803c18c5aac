"""Rounds between a subspace and the full space: on known samples, some of them missing."""

from __future__ import annotations

import math

import pytest
import torch

from conftest import small_sphere, trained
from exhume.attacks import GaussNewton, rounds
from exhume.attacks.rounds import Round
from exhume.attacks.search import Search
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.attacks.wide_span import WideSpan
from exhume.data import Dataset
from exhume.features import RandomFeatures

D, N, KNOWN = 60, 8, 5
PLAN = GaussNewton().plan()


@pytest.fixture(params=[WideSpan, SpanProblem])
def setting(request: pytest.FixtureRequest) -> tuple[Dataset, SpanProblem, State]:
    """Samples, the problem with carried or eliminated nuisance coefficients, and its state at some of them, slightly off."""
    data = small_sphere(d=D, n=N)
    release = trained(data, ratio=20)
    features, radius = RandomFeatures(release.features, dtype=torch.float64, keep_bytes=1 << 30), math.sqrt(D)
    wide = request.param is WideSpan
    problem = (
        WideSpan(features, release.weights, radius=radius)
        if wide
        else SpanProblem(features, release.weights, radius=radius, nuisance=True)
    )
    noise = torch.randn(KNOWN, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return data, problem, problem.state(problem.on_sphere(data.rows[:KNOWN] + 0.2 * noise))


def known(data: Dataset, X: torch.Tensor) -> int:
    """Samples that some row is close to, up to its sign."""
    return int(((X @ data.rows.T).abs() / D > 0.95).any(0).sum())


def test_rounds_find_what_is_missing_and_hardly_more(setting: tuple[Dataset, SpanProblem, State]) -> None:
    data, problem, state = setting
    at, losses = Round(Search(state.X)), [state.loss]
    while at.going and len(losses) < 9:
        at, state = rounds.advance(problem, state, at, PLAN, limit=20, seed=0, show=lambda state: None)
        losses.append(state.loss)
    assert not at.going
    assert N <= len(state.X) <= N + 2
    assert known(data, state.X) == N
    assert losses[-1] < 1e-8


def test_a_round_adds_no_more_rows_than_allowed(setting: tuple[Dataset, SpanProblem, State]) -> None:
    _, problem, state = setting
    shown: list[int] = []
    at, after = rounds.advance(
        problem, state, Round(Search(state.X)), PLAN, limit=KNOWN + 1, seed=0, show=lambda state: shown.append(state.X.shape[0])
    )
    assert set(shown) == {KNOWN + 1}
    assert after.m <= KNOWN + 1
    assert at.search.round == 1
    assert at.move is not None
    assert at.move.shape[1] == D


def test_rounds_end_on_weights_without_samples(setting: tuple[Dataset, SpanProblem, State]) -> None:
    _, problem, state = setting
    noise = torch.randn(1, problem.p, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    empty = type(problem)(problem.features, noise, radius=math.sqrt(D), **({} if type(problem) is WideSpan else {"nuisance": True}))
    at, state = Round(Search(state.X)), empty.state(state.X)
    for _ in range(20):
        at, state = rounds.advance(empty, state, at, PLAN, limit=20, seed=0, show=lambda state: None)
        if not at.going:
            break
    assert not at.going
    assert state.m >= 1
    assert state.loss > 0.5


def test_a_round_goes_on_from_what_was_packed(setting: tuple[Dataset, SpanProblem, State]) -> None:
    _, problem, state = setting

    def following(state: State, at: Round) -> tuple[Round, State]:
        return rounds.advance(problem, state, at, PLAN, limit=20, seed=0, show=lambda state: None)

    at, state = following(state, Round(Search(state.X)))
    tensors, values = rounds.pack(at)
    carried = {name: tensor.clone() for name, tensor in problem.carried().items()}
    _, onward = following(state, at)
    problem.carry(carried)
    back = rounds.unpack({name: tensor.clone() for name, tensor in tensors.items()}, values, "cpu")
    _, again = following(problem.state(back.search.X), back)
    torch.testing.assert_close(again.X, onward.X, rtol=0, atol=1e-9)


def test_a_subspace_holds_every_part_once() -> None:
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 30, generator=draw, dtype=torch.float64)
    Q = rounds._subspace([rows, 1e6 * rows[:2], rows.flip(0) * 1e-6])
    assert Q.shape == (30, 4)
    torch.testing.assert_close(Q.T @ Q, torch.eye(4, dtype=torch.float64))
    torch.testing.assert_close(rows @ Q @ Q.T, rows)
