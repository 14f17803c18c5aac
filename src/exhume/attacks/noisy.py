"""Grow and prune when the weights are only nearly in the span: trained features drift, so the loss has a floor above rounding.

The rows then cannot be told by a zero loss. Growing stops when further rows gain no more than a fit to noise would, and
rows whose removal costs no more than noise go again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from exhume.attacks import search
from exhume.attacks.cells import distinct_rows, repeated
from exhume.attacks.search import Pace, Plan, Search
from exhume.attacks.span_base import Span, State

# Further rows must lower the loss by this share, and by `_CAUTION` times the share that a fit to noise would gain.
_GAIN, _CAUTION = 0.08, 8.0
# A row stays when its removal costs this multiple of what a row fitted to noise would cost.
_SIGNIFICANT = 30.0
_SETTLED = Pace(growth=0.0, least=0, patience=5, gain=0.98)
_MOST_STEPS, _MOST_DAMPING = 200, 1e3


@dataclass(frozen=True)
class Step:
    """A step to go on from: where the search stands, and while it grows the last set of rows that could do no better."""

    search: Search
    level: float = math.inf  # its loss
    last: int = 0  # its number


Report = Callable[[Step, State], None]


def pack(step: Step) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A step as tensors and plain values, for a checkpoint."""
    tensors, values = search.pack(step.search)
    level = step.level if math.isfinite(step.level) else None  # JSON has no infinity
    return tensors, {"search": values, "level": level, "last": step.last}


def unpack(tensors: dict[str, torch.Tensor], values: dict[str, Any], device: torch.device | str) -> Step:
    """The step that `pack` took apart."""
    level = math.inf if values["level"] is None else values["level"]
    return Step(search.unpack(tensors, values["search"], device), level, values["last"])


def grow_to_noise(
    problem: Span,
    *,
    rows: int,
    limit: int,
    plan: Plan,
    seed: int,
    report: Report,
    resumed: Step | None = None,
) -> State:
    """Rows grown from `rows` to at most `limit` while they gain more than noise; the last set, noise rows included."""
    at = resumed or Step(search.begin(problem, rows=min(rows, limit), seed=seed))
    state = problem.state(at.search.X)
    while at.search.stage in ("grow", "prune"):
        now, found = search.advance(problem, state, at.search, plan, limit=limit, first_rows=rows, seed=seed)
        level, last = at.level, at.last
        if now.round > at.search.round or now.attempt > at.search.attempt:  # the rows of `state` can do no better
            noise = (state.m - last) * problem.d / (problem.p * problem.k)
            if state.loss > (1 - max(_GAIN, _CAUTION * noise)) * level or state.m >= limit:
                return found if state.m < limit else state
            level, last = state.loss, state.m
        at, state = Step(now, level, last), found
        report(at, found)
    return state


def settling(X: torch.Tensor, stage: str = "settle") -> Search:
    """The first step of settling at these rows."""
    return Search(X.contiguous(), damping=1e-3, stage=stage)


def prune_to_signal(problem: Span, at: Search, *, most: int | None, plan: Plan, report: Report) -> State:
    """Rows that stand out of the noise (or the `most` strongest), settled after each round of removals."""
    state = settle(problem, at, plan.careful(), report)
    while True:
        costs = problem.removal_costs(state)
        distinct = set(distinct_rows(repeated(state.X), costs).tolist())
        weak = [i for i in costs.argsort().tolist() if i not in distinct or costs[i] < noise_cost(problem, state)]
        if most is not None:
            weak = costs.argsort().tolist()[: max(0, state.m - most)]
        if not weak or len(weak) >= state.m:
            return state
        gone = set(weak[: max(1, len(weak) // 2)])
        X = state.X[[i for i in range(state.m) if i not in gone]]
        state = settle(problem, settling(X), plan.careful(), report)


def noise_cost(problem: Span, state: State) -> float:
    """The removal cost below which a row may be noise: a multiple of loss (d + k) / (p k)."""
    return _SIGNIFICANT * search.noise_gain(problem, state)


def settle(problem: Span, at: Search, plan: Plan, report: Report) -> State:
    """Gauss-Newton steps with the number of rows fixed until the loss stands still."""
    state = problem.state(at.X)
    now = at if at.losses else replace(at, losses=(state.loss,))
    while now.step < _MOST_STEPS and not search.stalled(now.losses, _SETTLED) and now.damping <= _MOST_DAMPING:
        X = problem.step(state, damping=now.damping, cg_steps=plan.cg_steps, cg_tolerance=plan.cg_tolerance)
        trial = problem.state(X)
        better = trial.loss < state.loss
        state = trial if better else state
        damping = max(now.damping / 3, 1e-9) if better else now.damping * 6
        now = replace(now, X=state.X, damping=damping, losses=(*now.losses, state.loss), step=now.step + 1)
        report(Step(now), state)
    return state


def best_of(problem: Span, fits: list[State]) -> State:
    """The fit with the smallest loss, rows counted as unknowns: loss / (equations - unknowns)^2."""

    def criterion(state: State) -> float:
        free = problem.p * problem.k - state.m * (problem.d - 1 + problem.k)
        return state.loss / max(1, free) ** 2 if free > 0 else float("inf")

    return min(fits, key=criterion)
