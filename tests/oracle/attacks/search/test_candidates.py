"""Candidate rows on planted problems: a step, a new set of rows, and rows tried without."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.attacks.proof.certificate import VAGUE, row_errors
from exhume.attacks.search.candidates import (
    UNSUPPORTED,
    Candidates,
    InnerSolve,
    Stage,
    TriedWithout,
    moved,
    pruned,
    restarted,
    state_at,
    taken_back,
    without_spare_rows,
)
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point
from exhume.linalg.levenberg import FIRST_DAMPING
from support.planted import coefficients, drawn, nearby, planted, sphere_rows, through_a_file, worst_distance

D, N, P = 12, 5, 700
SOLVE = InnerSolve(steps=40, tolerance=1e-6)


def at(X: torch.Tensor, **changes: object) -> Candidates:
    """A search at these rows."""
    return replace(Candidates(Point(X)), **changes)  # type: ignore[arg-type]


def assert_rows(now: Candidates, X: torch.Tensor) -> None:
    torch.testing.assert_close(now.at.X, X, rtol=0, atol=1e-12)


def settled(problem: BlockwiseSpan, now: Candidates, steps: int = 8) -> Candidates:
    for _ in range(steps):
        now = moved(problem, now, SOLVE)
    return now


def test_longer_solves_are_more_exact() -> None:
    assert InnerSolve(4, 0.1).longer(6) == InnerSolve(24, 0.01)


def test_the_loss_is_that_of_the_rows_or_of_the_last_step() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    now = moved(problem, at(nearby(problem, X, 0.3)), SOLVE)
    assert now.loss == problem.state(now.at).loss == now.losses[-1]
    back = through_a_file(now)
    assert back.state is None  # features are computed anew
    assert back.loss == now.loss
    assert torch.equal(state_at(problem, back).X, now.at.X)


@pytest.mark.parametrize(
    ("stage", "searching"), [(Stage.GROW, True), (Stage.PRUNE, True), (Stage.DONE, False), (Stage.FAILED, False)]
)
def test_a_search_goes_on_until_it_is_done_or_has_failed(stage: Stage, searching: bool) -> None:
    assert Candidates(Point(sphere_rows(1, D)), stage=stage).searching is searching


def test_steps_lead_to_the_planted_rows() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    now = settled(problem, at(nearby(problem, X, 0.2)))
    assert now.loss < 1e-20
    assert worst_distance(now.at.X, X) < 1e-9
    assert now.step == len(now.losses) == 8
    assert all(after <= before for before, after in zip(now.losses, now.losses[1:], strict=False))


def test_a_step_is_taken_where_it_helps_and_else_damped_more() -> None:
    """Noisy weights of few features: near the minimum, kinks of ReLU make full steps do harm."""
    X = sphere_rows(N, D)
    problem, now, seen = planted(X, p=150, noise=0.5), at(X), set()
    for _ in range(40):
        state = problem.state(now.at)
        trial = problem.state(problem.step(state, damping=now.damping, cg_steps=SOLVE.steps, cg_tolerance=SOLVE.tolerance))
        helped = trial.loss < state.loss
        after = moved(problem, now, SOLVE)
        assert_rows(after, trial.X if helped else state.X)
        assert after.damping == pytest.approx(now.damping / 3 if helped else now.damping * 6)
        assert after.losses == (*now.losses, min(trial.loss, state.loss))  # a step that was not taken counts as one without gain
        seen.add(helped)
        now = after
    assert seen == {True, False}


def test_only_the_losses_that_are_asked_for_are_kept() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    now = at(nearby(problem, X, 0.3))
    for _ in range(5):
        now = moved(problem, now, InnerSolve(2, 0.1), keep_losses=3)
    assert len(now.losses) == 3
    assert now.losses[-1] == now.loss


def test_another_set_of_rows_begins_a_new_history() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    now = settled(problem, at(nearby(problem, X, 0.3), round=3, attempt=1), steps=2)
    again = restarted(problem, now, Point(X[:3]), round=4)
    assert_rows(again, X[:3])
    assert (again.step, again.round, again.attempt, again.damping) == (3, 4, 1, FIRST_DAMPING)
    assert again.losses == (again.loss,) == (problem.state(Point(X[:3])).loss,)


def test_with_nothing_superfluous_a_pruning_ends_the_search() -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    end = pruned(problem, at(X))
    assert end.stage is Stage.DONE
    assert_rows(end, X)


def test_a_superfluous_row_goes_and_the_search_ends_without_it() -> None:
    X = sphere_rows(N + 1, D)
    problem = planted(X[:N], p=P)
    lean = pruned(problem, at(X))
    assert (lean.stage, len(lean.at.X), lean.most_to_drop) == (Stage.PRUNE, N, 1)
    assert_rows(lean, X[:N])
    assert lean.without is not None
    assert torch.equal(lean.without.rows.X, X)
    end = pruned(problem, lean)
    assert (end.stage, len(end.at.X), end.without) == (Stage.DONE, N, None)


def test_several_superfluous_rows_go_at_once_and_no_more_than_are_allowed() -> None:
    X = sphere_rows(N + 3, D)
    problem = planted(X[:N], p=P)
    assert_rows(pruned(problem, at(X)), X[:N])
    assert len(pruned(problem, at(X, most_to_drop=2)).at.X) == N + 1
    allowed_none = pruned(problem, at(X, most_to_drop=0))
    assert (allowed_none.stage, len(allowed_none.at.X)) == (Stage.DONE, N + 3)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_two_rows_on_both_sides_of_a_sample_become_one_in_its_place(sign: float) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    aside = 0.02 * drawn(1, D, seed=6)
    pieces = problem.on_sphere(torch.cat([X[:1] + aside, sign * (X[:1] - aside)]))
    lean = without_spare_rows(problem, at(torch.cat([pieces, X[1:]])), UNSUPPORTED)
    assert lean is not None
    assert len(lean.at.X) == N
    assert worst_distance(lean.at.X, X, up_to_sign=True) < 0.2 * worst_distance(pieces, X[:1], up_to_sign=True)
    end = settled(problem, lean)
    assert worst_distance(end.at.X, X, up_to_sign=True) < 1e-9


def test_above_rounding_rows_go_that_cost_ten_times_the_loss() -> None:
    """Of noisy weights: a row that costs three times the loss, well pinned down and no longer doubted."""
    X, alpha = sphere_rows(N, D), coefficients(N)
    alpha[4] = 3e-3
    problem = planted(X, alpha, p=20_000, noise=2e-4)
    now = at(X, doubted=True)
    state = state_at(problem, now)
    assert UNSUPPORTED < 1.5 * state.loss < float(problem.removal_costs(state)[4]) < 9 * state.loss
    assert max(row_errors(problem, state)) < VAGUE
    assert_rows(pruned(problem, now), X[:4])
    assert without_spare_rows(problem, now, UNSUPPORTED) is None


def test_rows_within_the_budget_go() -> None:
    """Of rows of small coefficients those go that cost no more than the budget in all."""
    X = sphere_rows(N, D)
    alpha = coefficients(N)
    alpha[3], alpha[4] = 0.03, 0.1
    problem = planted(X, alpha, p=P)
    now = at(X, doubted=True)
    costs = problem.removal_costs(state_at(problem, now))
    order = costs.argsort().tolist()
    assert order[:2] == [3, 4]
    for budget, left in ((0.5 * float(costs[3]), 5), (1.5 * float(costs[3]), 4), (2 * float(costs[3] + costs[4]), 3)):
        lean = without_spare_rows(problem, now, budget)
        assert (N if lean is None else len(lean.at.X)) == left


def test_the_weakest_row_is_tried_without_where_it_costs_next_to_nothing() -> None:
    X = sphere_rows(N, D)
    alpha = coefficients(N)
    alpha[2] = 0.01
    problem = planted(X, alpha, p=P)
    now = at(X)
    costs = problem.removal_costs(state_at(problem, now))
    assert 1e-9 < float(costs[2]) < 1e-4
    lean = without_spare_rows(problem, now, UNSUPPORTED)
    assert lean is not None
    assert_rows(lean, X[[0, 1, 3, 4]])
    assert without_spare_rows(problem, replace(now, doubted=True), UNSUPPORTED) is None  # it has been tried before


def test_a_needed_row_that_was_taken_out_comes_back_and_stays() -> None:
    X = sphere_rows(N, D)
    alpha = coefficients(N)
    alpha[2] = 0.01
    problem = planted(X, alpha, p=P)
    lean = pruned(problem, at(X))
    assert len(lean.at.X) == N - 1
    stuck = settled(problem, lean)
    assert stuck.loss > 1e-8  # the others cannot do without it
    back = taken_back(problem, stuck)
    assert (back.stage, back.without, back.most_to_drop) == (Stage.GROW, None, 0)
    assert_rows(back, X)
    end = pruned(problem, back)
    assert (end.stage, len(end.at.X)) == (Stage.DONE, N)


@pytest.mark.parametrize(("dropped", "next_time"), [(1, 0), (5, 2), (8, 4)])
def test_after_a_mistake_half_as_many_rows_may_go(dropped: int, next_time: int) -> None:
    X = sphere_rows(N, D)
    problem = planted(X, p=P)
    now = at(X[:2], stage=Stage.PRUNE, without=TriedWithout(Point(X), 1e-9), most_to_drop=dropped)
    back = taken_back(problem, now)
    assert_rows(back, X)
    assert back.most_to_drop == next_time


def test_rows_that_converge_without_those_taken_out_may_be_pruned_freely_again() -> None:
    X = sphere_rows(N + 2, D)
    problem = planted(X[:N], p=P)
    now = at(X, stage=Stage.PRUNE, without=TriedWithout(Point(X), 1e-20), most_to_drop=1)
    lean = pruned(problem, now)
    assert len(lean.at.X) == N  # both go, though the last pruning was for one


def test_vague_rows_go_and_the_last_row_never_does() -> None:
    X = sphere_rows(1, D)
    problem = planted(X, p=P)
    assert pruned(problem, at(X)).stage is Stage.DONE
    noise = sphere_rows(2, D, seed=4)
    end = pruned(problem, at(torch.cat([X, noise])))
    assert_rows(end, X)
