"""Growing rows on planted problems: where they start, how many stand out, and the ends of a search."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch

from exhume import counting
from exhume.attacks.search.candidates import Stage
from exhume.attacks.search.growth import Growth, GrowthSettings, GrowthState, fresh_rows, visible_rows
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point
from support.planted import (
    coefficients,
    drawn,
    features_of,
    matrix_of,
    nearby,
    planted,
    sphere_rows,
    through_a_file,
    worst_distance,
)

D, N, P = 12, 4, 700


def finished(problem: BlockwiseSpan, growth: Growth, now: GrowthState, *, most: int = 400) -> list[GrowthState]:
    """All states up to the end."""
    states = [now]
    while not growth.done(states[-1]):
        assert len(states) < most, "the search did not end"
        states.append(growth.advance(problem, states[-1]))
    return states


def limit_of(problem: BlockwiseSpan) -> int:
    return counting.most_rows(problem.p, problem.d, problem.k)


@pytest.mark.parametrize("activation", ["relu", "gelu", "abs", "tanh", "relu+tanh", "cosine"])
def test_from_nothing_but_the_weights(activation: str) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P, activation=activation)
    growth = Growth(limit_of(problem), first_rows=2, seed=0)
    end = finished(problem, growth, growth.begin(problem, 2))[-1]
    assert end.stage is Stage.DONE
    assert end.loss < 1e-15
    assert len(end.at.X) == N
    assert worst_distance(end.at.X, X, up_to_sign=True) < 1e-6


def test_several_outputs_share_their_rows() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, coefficients(N, 3), p=300)
    growth = Growth(limit_of(problem), first_rows=2, seed=0)
    end = finished(problem, growth, growth.begin(problem, 2))[-1]
    assert (end.stage, len(end.at.X)) == (Stage.DONE, N)
    assert worst_distance(end.at.X, X, up_to_sign=True) < 1e-6


@pytest.mark.parametrize("claimed", [N, N + 2, N + 4])
def test_too_many_claimed_rows_are_corrected(claimed: int) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    growth = Growth(claimed, first_rows=2, seed=0)
    states = finished(problem, growth, growth.begin(problem, claimed))
    assert len(states[0].at.X) == claimed
    assert (states[-1].stage, len(states[-1].at.X)) == (Stage.DONE, N)
    assert worst_distance(states[-1].at.X, X, up_to_sign=True) < 1e-6


def test_too_few_rows_fail_after_all_starts() -> None:
    X = sphere_rows(N + 2, D)
    problem = planted(X, p=P)
    settings = GrowthSettings(starts=2, rounds_at_limit=2)
    growth = Growth(N, first_rows=2, seed=0, settings=settings)
    states = finished(problem, growth, growth.begin(problem, 2))
    assert states[-1].stage is Stage.FAILED
    assert states[-1].loss > 1e-4
    assert max(len(now.at.X) for now in states) == N  # the limit holds
    assert {now.attempt for now in states} == {0, 1}


def test_too_few_equations_end_in_a_failure() -> None:
    """As many features as unknowns: p = d n."""
    X = sphere_rows(6, D)
    problem = planted(X, p=6 * D)
    growth = Growth(limit_of(problem), first_rows=2, seed=0, settings=GrowthSettings(starts=1, rounds_at_limit=1))
    end = finished(problem, growth, growth.begin(problem, 2))[-1]
    assert end.stage is Stage.FAILED
    assert end.loss > 1e-6


def test_rows_grow_by_the_pace_and_steps_are_counted() -> None:
    X = sphere_rows(8, D)
    problem = planted(X, p=1600)
    growth = Growth(20, first_rows=2, seed=0)
    states = finished(problem, growth, growth.begin(problem, 2))
    counts = [len(now.at.X) for now in states]
    assert counts[0] == 2
    grown = [b - a for a, b in itertools.pairwise(counts) if b > a]
    assert grown  # two at a time, or a quarter of those there
    assert set(grown) <= {2, 3, 4, 5}
    assert [now.step for now in states[:-1]] == list(range(len(states) - 1))
    rounds = [now.round for now in states]
    assert rounds == sorted(rounds)


def test_a_later_attempt_takes_its_time_and_starts_elsewhere() -> None:
    settings = GrowthSettings()
    assert settings.pace(0) == settings.first_pace
    slow, slower = settings.pace(1), settings.pace(2)
    assert slow.patience > settings.first_pace.patience
    assert (slow.added(100), slower.added(100)) == (20, 10)
    problem = outliers([4.0, -3.0, 2.0])
    growth = Growth(8, first_rows=3, seed=0)
    first, second, third = (growth.begin(problem, 3, attempt=attempt, step=17) for attempt in range(3))
    assert (second.attempt, second.step) == (1, 17)
    for one, other in ((first, second), (first, third), (second, third)):  # other mixtures of the same eigenvectors
        assert worst_distance(other.at.X, one.at.X, up_to_sign=True) > 0.1
    assert torch.equal(growth.begin(problem, 3).at.X, first.at.X)


def test_a_search_through_files_is_the_same_search() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    growth = Growth(limit_of(problem), first_rows=2, seed=3)
    whole = finished(problem, growth, growth.begin(problem, 2))
    now, steps = through_a_file(growth.begin(problem, 2)), 0
    while not growth.done(now):
        now, steps = through_a_file(growth.advance(problem, now)), steps + 1
    assert steps == len(whole) - 1
    assert torch.equal(now.at.X, whole[-1].at.X)
    assert now.losses == whole[-1].losses


def test_a_superfluous_row_near_the_end_is_taken_out() -> None:
    X = sphere_rows(N + 1, D)
    problem = planted(X[:N], p=P)
    growth = Growth(limit_of(problem), first_rows=2, seed=0)
    states = finished(problem, growth, GrowthState(Point(nearby(problem, X, 1e-3))))
    assert Stage.PRUNE in {now.stage for now in states}
    assert (states[-1].stage, len(states[-1].at.X)) == (Stage.DONE, N)


def test_a_weak_sample_that_was_tried_without_comes_back() -> None:
    X, alpha = sphere_rows(N, D), coefficients(N)
    alpha[1] = 0.01
    problem = planted(X, alpha, p=P)
    growth = Growth(limit_of(problem), first_rows=2, seed=0)
    states = finished(problem, growth, GrowthState(Point(X)))
    assert N - 1 in {len(now.at.X) for now in states}
    assert (states[-1].stage, len(states[-1].at.X)) == (Stage.DONE, N)
    assert worst_distance(states[-1].at.X, X, up_to_sign=True) < 1e-6


def reshaped(problem: BlockwiseSpan, X: torch.Tensor, *, limit: int, turnover: float = 0.1, round: int = 0) -> GrowthState:
    """The search after a stall at these rows."""
    growth = Growth(limit, first_rows=2, seed=0, settings=GrowthSettings(turnover=turnover))
    stalled = replace(GrowthState(Point(X)), losses=(problem.state(Point(X)).loss,) * 6, round=round)
    after = growth.advance(problem, stalled)
    assert after.round == round + 1
    return after


def kept(before: torch.Tensor, after: GrowthState) -> list[bool]:
    return (torch.cdist(before, after.at.X).min(dim=1).values < 1e-9).tolist()


STRONG = torch.tensor([[3.0], [-3.0], [1.0], [1.0]], dtype=torch.float64)


@pytest.mark.parametrize("turnover", [0.0, 0.5])
def test_stalled_at_the_limit_the_weakest_rows_are_replaced(turnover: float) -> None:
    """Two true rows and two of noise: the noise goes, and new rows start from what the true ones leave."""
    X = sphere_rows(N, D)
    problem = planted(X, STRONG, p=P)
    start = torch.cat([sphere_rows(2, D, seed=8), X[:2]])
    after = reshaped(problem, start, limit=4, turnover=turnover)
    assert (after.at_limit, len(after.at.X)) == (1, 4)
    assert kept(start, after) == [False, False, True, True]


def test_stalled_at_the_limit_with_strong_rows_the_weakest_of_them_goes() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, STRONG, p=P)
    after = reshaped(problem, X[:2], limit=2)
    weakest = int(problem.removal_costs(problem.state(Point(X[:2]))).argmin())
    assert len(after.at.X) == 2
    assert kept(X[:2], after) == [i != weakest for i in range(2)]


def test_a_stall_merges_rows_that_are_one() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, STRONG, p=P)
    start = torch.cat([X[:1], -nearby(problem, X[:1], 0.01), X[1:2]])
    after = reshaped(problem, start, limit=20, turnover=0.4)
    assert len(after.at.X) == 5  # two more than there were, and one in the place of the double
    assert sum(kept(start, after)) == 2
    assert kept(start, after)[2]


def test_stalled_below_the_limit_rows_are_added_to_those_there() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, STRONG, p=P)
    after = reshaped(problem, X[:2], limit=10)
    assert (after.at_limit, len(after.at.X)) == (0, 4)
    assert kept(X[:2], after) == [True, True]


def test_every_round_draws_rows_of_its_own() -> None:
    """Where the second moment is blind new rows are random, and a second round must not try the first one's again."""
    X = sphere_rows(N, D)
    problem = planted(X, STRONG, p=P, activation="tanh")
    first, second = (reshaped(problem, X[:2], limit=10, round=round).at.X for round in (0, 1))
    assert not torch.equal(first, second)


def outliers(sizes: list[float]) -> BlockwiseSpan:
    """Weights sum_i a_i ((v x_i)^2 - 1): each of the orthogonal x_i is an eigenvector of their second moment, nearly."""
    features = features_of(40, 16_000)
    X = math.sqrt(40) * torch.linalg.qr(drawn(40, len(sizes)))[0].T
    V = torch.cat([block.V for block in features.blocks()])
    theta = ((V @ X.T) ** 2 - 1) @ torch.tensor(sizes, dtype=torch.float64)
    return BlockwiseSpan(features, theta[None], radius=math.sqrt(40), nuisance=False)


def dense_moment(problem: BlockwiseSpan, vector: torch.Tensor) -> torch.Tensor:
    """sum_k r_k (d v_k v_k^T - I)."""
    V = matrix_of(problem)
    return problem.d * V.T @ (vector[:, None] * V) - vector.sum() * torch.eye(problem.d, dtype=torch.float64)


@pytest.mark.parametrize("count", [1, 3])
def test_new_rows_are_the_top_eigenvectors_of_the_second_moment(count: int) -> None:
    problem = outliers([4.0, -3.0, 2.0])
    vector = problem.theta[:, 0]
    values, vectors = torch.linalg.eigh(dense_moment(problem, vector))
    top = vectors[:, values.abs().argsort(descending=True)[:count]].T
    rows = fresh_rows(problem, vector, count, seed=0, key=0, mix=False)
    torch.testing.assert_close((rows @ top.T).abs() / math.sqrt(40), torch.eye(count, dtype=torch.float64), rtol=0, atol=0.02)


def test_mixed_rows_stay_in_the_span_of_the_eigenvectors() -> None:
    problem = planted(sphere_rows(N, D), p=P)
    vector = problem.theta[:, 0]
    plain, mixed = (fresh_rows(problem, vector, 3, seed=0, key=5, mix=mix) for mix in (False, True))
    Q = torch.linalg.qr(plain.T)[0]
    torch.testing.assert_close(mixed @ Q @ Q.T, mixed)
    assert worst_distance(mixed, plain, up_to_sign=True) > 0.1


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("count", [2, 3 * D])
def test_any_number_of_rows_can_start_on_the_sphere(activation: str, count: int) -> None:
    problem = planted(sphere_rows(N, D), p=P, activation=activation)
    rows = fresh_rows(problem, problem.theta[:, 0], count, seed=0, key=0, mix=False)
    assert rows.shape == (count, D)
    assert rows.is_contiguous()
    torch.testing.assert_close(rows.norm(dim=1), torch.full((count,), math.sqrt(D), dtype=torch.float64))
    assert torch.linalg.matrix_rank(rows) == min(count, D)
    other = fresh_rows(problem, problem.theta[:, 0], count, seed=1, key=0, mix=False)
    if activation == "tanh":  # its moment is blind: rows are random
        assert worst_distance(other, rows, up_to_sign=True) > 0.1


@pytest.mark.parametrize(
    ("sizes", "visible"),
    [
        ([1.0], 1),
        ([1.0, -1.0, 1.0], 3),  # of either sign
        ([1.2, 1.1, 1.0, 1.0, 0.9], 5),
        ([3.0, 2.0, 0.01, 0.01], 2),  # the last two drown in the bulk that the first two make
    ],
)
def test_planted_outliers_are_counted(sizes: list[float], visible: int) -> None:
    problem = outliers(sizes)
    assert [visible_rows(problem, seed=seed) for seed in range(3)] == [visible] * 3
    assert visible_rows(problem, seed=0, most=2) == min(visible, 2)


def test_half_the_dimensions_at_most_stand_out() -> None:
    problem = planted(sphere_rows(6, 6), torch.ones(6, 1, dtype=torch.float64), p=4000)
    assert visible_rows(problem, seed=0) <= 3


def test_weights_without_samples_show_none() -> None:
    problem = BlockwiseSpan(features_of(40, 16_000), drawn(1, 16_000), radius=math.sqrt(40), nuisance=False)
    assert [visible_rows(problem, seed=seed) for seed in range(4)] == [0, 0, 0, 0]


def test_odd_features_show_no_sample() -> None:
    problem = planted(sphere_rows(3, D), p=P, activation="tanh")
    assert problem.moments is None
    assert visible_rows(problem, seed=0) == 0
