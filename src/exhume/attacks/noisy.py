"""Grow and prune when the weights are only nearly in the span: trained features drift, so the loss has a floor above rounding.

The rows then cannot be told by a zero loss. Growing stops when further rows gain no more than a fit to noise would, and
rows whose removal costs no more than noise go again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from exhume.attacks import search
from exhume.attacks.search import Pace, Plan, Search
from exhume.attacks.span_base import Span, State

# Further rows must lower the loss by this share, and by `caution` times the share that a fit to noise would gain.
_GAIN = 0.08
# A row stays when its removal costs this multiple of what a row fitted to noise would cost.
_SIGNIFICANT = 30.0
_SETTLED = Pace(growth=0.0, least=0, patience=5, gain=0.98)
_MOST_STEPS = 200

Report = Callable[[Search, State], None]


def grow_to_noise(problem: Span, *, rows: int, limit: int, plan: Plan, seed: int, report: Report, caution: float = 8.0) -> State:
    """Rows grown from `rows` to at most `limit` while they gain more than noise; the last set, noise rows included."""
    now = search.begin(problem, rows=min(rows, limit), seed=seed)
    state, level, last = problem.state(now.X), float("inf"), 0
    while now.stage in ("grow", "prune"):
        before, (now, found) = now, search.advance(problem, state, now, plan, limit=limit, first_rows=rows, seed=seed)
        report(now, found)
        if now.round > before.round or now.attempt > before.attempt:  # the rows of `state` can do no better
            noise = (state.m - last) * problem.d / (problem.p * problem.k)
            if state.loss > (1 - max(_GAIN, caution * noise)) * level or state.m >= limit:
                return found if state.m < limit else state
            level, last = state.loss, state.m
        state = found
    return state


def prune_to_signal(problem: Span, state: State, *, keep: int | None, plan: Plan, report: Report) -> State:
    """Rows that stand out of the noise (or the `keep` strongest), settled after each round of removals."""
    state = settle(problem, state, plan, report)
    while True:
        costs = problem.removal_costs(state)
        distinct = set(search.distinct_rows(state.X, costs, apart=search.APART).tolist())
        weak = [i for i in costs.argsort().tolist() if i not in distinct or costs[i] < noise_cost(problem, state)]
        if keep is not None:
            weak = costs.argsort().tolist()[: max(0, state.m - keep)]
        if not weak or len(weak) >= state.m:
            return state
        gone = set(weak[: max(1, len(weak) // 2)])
        X = state.X[[i for i in range(state.m) if i not in gone]]
        state = settle(problem, problem.state(X), plan, report)


def noise_cost(problem: Span, state: State) -> float:
    """The removal cost below which a row may be noise: a multiple of loss (d + k) / (p k)."""
    return _SIGNIFICANT * state.loss * (problem.d + problem.k) / (problem.p * problem.k)


def settle(problem: Span, state: State, plan: Plan, report: Report) -> State:
    """Gauss-Newton steps with the number of rows fixed until the loss stands still."""
    now = Search(state.X, losses=(state.loss,), damping=1e-3)
    for step in range(_MOST_STEPS):
        if search.stalled(now.losses, _SETTLED) or now.damping > 1e3:
            break
        X = problem.step(state, damping=now.damping, cg_steps=2 * plan.cg_steps, cg_tolerance=plan.cg_tolerance / 10)
        trial = problem.state(X)
        better = trial.loss < state.loss
        state = trial if better else state
        damping = max(now.damping / 3, 1e-9) if better else now.damping * 6
        now = replace(now, X=state.X, damping=damping, losses=(*now.losses, state.loss), step=step, stage="settle")
        report(now, state)
    return state


def best_of(problem: Span, fits: list[State]) -> State:
    """The fit with the smallest loss, rows counted as unknowns: loss / (equations - unknowns)^2."""

    def criterion(state: State) -> float:
        free = problem.p * problem.k - state.m * (problem.d - 1 + problem.k)
        return state.loss / max(1, free) ** 2 if free > 0 else float("inf")

    return min(fits, key=criterion)
