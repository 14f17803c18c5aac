"""Rows out of noisy weights: planted rows with noise added, settled against exact minima, and the rules that end a fit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from exhume import counting
from exhume.attacks.search.candidates import Candidates, InnerSolve
from exhume.attacks.search.growth import Growth
from exhume.attacks.search.noise_floor import FitState, NoiseFloor, NoiseFloorSettings, Settling, best_fit, noise_cost
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point
from support.planted import coefficients, drawn, nearby, planted, sphere_rows, through_a_file, worst_distance
from support.problems import state_at

D, N, P = 12, 4, 1200
SETTLING = Settling(InnerSolve(8, 0.01))


def strategy(problem: BlockwiseSpan, *, first: int = 2, claimed: int | None = None, seed: int = 0) -> NoiseFloor:
    limit = claimed or counting.most_rows(problem.p, problem.d, problem.k)
    return NoiseFloor(Growth(limit, min(first, limit), seed), SETTLING, claimed)


def fitted(problem: BlockwiseSpan, search: NoiseFloor, now: FitState | None = None) -> list[FitState]:
    states = [search.begin(problem) if now is None else now]
    while not search.done(states[-1]):
        assert len(states) < 500, "the fit did not end"
        states.append(search.advance(problem, problem, states[-1]))
    return states


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 0.05])
@pytest.mark.parametrize("k", [1, 2])
def test_the_true_rows_come_out_of_the_noise(noise: float, k: int) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, coefficients(N, k), p=P, noise=noise)
    end = fitted(problem, strategy(problem))[-1].rows
    assert len(end.at.X) == N
    assert worst_distance(end.at.X, X, up_to_sign=True) < 2 * noise
    assert 0.5 * noise**2 < end.loss < noise**2  # the floor is the noise, less what rows take of it


def test_of_nothing_but_noise_no_row_stands_out_and_the_verdict_can_say_so() -> None:
    problem = planted(sphere_rows(N, D), p=P, noise=1e3)
    end = fitted(problem, strategy(problem))[-1].rows
    state = state_at(problem, end.at.X)
    assert state.m >= 1  # a verdict is about rows
    assert float(problem.removal_costs(state).max()) < noise_cost(problem, state)


@pytest.mark.parametrize("claimed", [2, N, N + 2])
def test_a_claimed_number_of_rows_is_kept_to(claimed: int) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P, noise=1e-2)
    states = fitted(problem, strategy(problem, first=claimed, claimed=claimed))
    assert len(states[-1].rows.at.X) == claimed
    if claimed >= N:
        assert worst_distance(states[-1].rows.at.X, X, up_to_sign=True) < 0.1


def test_rows_of_noise_go_and_true_ones_stay() -> None:
    X, noise = sphere_rows(N, D), sphere_rows(3, D, seed=8)
    problem = planted(X, p=P, noise=1e-2)
    search = strategy(problem)
    start = FitState(settling=SETTLING.begin(problem, torch.cat([X, noise])))
    states = fitted(problem, search, start)
    counts = [len(now.rows.at.X) for now in states]
    assert sorted(counts, reverse=True) == counts  # never back
    assert N + 2 in counts  # half of the weak ones at a time, so that the rest can settle
    assert counts[-1] == N
    assert worst_distance(states[-1].rows.at.X, X, up_to_sign=True) < 0.02


def test_a_claimed_number_beyond_which_the_weakest_go() -> None:
    X, extra = sphere_rows(N, D), sphere_rows(2, D, seed=8)
    problem = planted(X, p=P, noise=1e-2)
    search = replace(strategy(problem), claimed=N)
    states = fitted(problem, search, FitState(settling=SETTLING.begin(problem, torch.cat([extra, X]))))
    assert len(states[-1].rows.at.X) == N
    assert worst_distance(states[-1].rows.at.X, X, up_to_sign=True) < 0.02


def test_a_repeated_row_goes_though_it_costs_more_than_noise() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P, noise=1e-6)
    aside = 0.03 * drawn(1, D, seed=6)  # two rows on both sides of a sample
    state = state_at(problem, problem.on_sphere(torch.cat([X[:1] + aside, X[1:], aside - X[:1]])))
    costs = problem.removal_costs(state)
    assert float(costs.min()) > noise_cost(problem, state)
    assert strategy(problem)._weak(problem, state) == [0 if costs[0] < costs[N] else N]
    states = fitted(problem, strategy(problem), FitState(settling=SETTLING.begin(problem, state.X)))
    assert len(states[-1].rows.at.X) == N


def test_a_fit_grows_then_settles_and_goes_through_files() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P, noise=1e-2)
    search = strategy(problem)
    whole = fitted(problem, search)
    settling = [now.settling is not None for now in whole]
    assert settling == sorted(settling)  # first all of the growth
    assert settling[0] is False
    assert settling[-1] is True
    now, steps = through_a_file(search.begin(problem)), 0
    while not search.done(now):
        now, steps = through_a_file(search.advance(problem, problem, now)), steps + 1
    assert steps == len(whole) - 1
    assert torch.equal(now.rows.at.X, whole[-1].rows.at.X)


def test_the_settling_may_have_other_norms_than_the_growth() -> None:
    """Rows of unequal norms under an activation that sees them: grown on a sphere, settled with norms free."""
    X = sphere_rows(2, D) * torch.tensor([[0.9], [1.15]], dtype=torch.float64)
    free = planted(X, p=P, activation="relu+tanh", free=True, noise=1e-4)
    search = strategy(free)
    now = FitState(settling=SETTLING.begin(free, sphere_rows(2, D)))
    while not search.done(now):
        now = search.advance(free.with_radius(math.sqrt(D)), free, now)
    torch.testing.assert_close(now.rows.at.X, X, rtol=0, atol=1e-2)


def test_settling_ends_at_the_minimum() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P, noise=0.05)
    now = SETTLING.begin(problem, nearby(problem, X, 0.1))
    assert now.losses == (state_at(problem, now.at.X).loss,)
    while not SETTLING.done(now):
        now = SETTLING.advance(problem, now)
    state = state_at(problem, now.at.X)
    slope = problem.tangent(state.X, state.gradient).norm() / problem.energy
    start = state_at(problem, nearby(problem, X, 0.1))
    assert slope < 1e-2 * problem.tangent(start.X, start.gradient).norm() / problem.energy
    assert now.loss < 0.05**2


@pytest.mark.parametrize(
    ("changes", "done"),
    [
        ({}, False),
        ({"losses": (1.0,) * 5}, False),
        ({"losses": (1.0,) * 6}, True),  # five steps without a gain of two percent
        ({"losses": (1.0, 0.99, 0.985, 0.983, 0.981, 0.97)}, False),
        ({"step": 199}, False),
        ({"step": 200}, True),
        ({"damping": 1e3}, False),
        ({"damping": 1.1e3}, True),  # no step helps any more
    ],
)
def test_rows_have_settled_by_any_of_three_rules(changes: dict[str, object], done: bool) -> None:
    now = replace(Candidates(Point(sphere_rows(1, D)), losses=(1.0,)), **changes)  # type: ignore[arg-type]
    assert SETTLING.done(now) is done


@pytest.mark.parametrize("k", [1, 3])
def test_noise_costs_thirty_times_what_a_fit_to_noise_would(k: int) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, coefficients(N, k), p=P, noise=0.1)
    state = state_at(problem, X)
    assert noise_cost(problem, state) == pytest.approx(30 * state.loss * (D + k) / (P * k))
    assert noise_cost(problem, state, NoiseFloorSettings(significant=1.0)) == pytest.approx(state.loss * (D + k) / (P * k))


@pytest.mark.parametrize(
    ("losses", "rows"),
    [
        ((1.0, 0.88), 4),  # 1 / 152^2 against 0.88 / 140^2: equations less unknowns, 200 - 12 a row
        ((1.0, 0.84), 5),
        ((1.0, 1.0), 4),
    ],
)
def test_the_best_fit_counts_rows_as_unknowns(losses: tuple[float, float], rows: int) -> None:
    X = sphere_rows(5, D)
    problem = planted(X[:N], p=200, noise=0.1)
    fits = [replace(state_at(problem, X[:m]), loss=loss) for m, loss in zip((4, 5), losses, strict=True)]
    assert best_fit(problem, fits).m == rows
    assert best_fit(problem, fits[::-1]).m == rows


def test_a_fit_with_as_many_unknowns_as_equations_never_wins() -> None:
    X = sphere_rows(18, D)
    problem = planted(X[:N], p=200, noise=0.5)
    assert problem.unknowns(18) > problem.equations
    exact, poor = replace(state_at(problem, X), loss=0.0), state_at(problem, X[:1])
    assert best_fit(problem, [exact, poor]) is poor
