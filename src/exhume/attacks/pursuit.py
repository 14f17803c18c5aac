"""Search for rows of unknown, unequal norms under an activation that sees them: pursuit of the residual, row by row.

The second moment of the weights shows directions only. Here a row is born where the residual correlates most with a feature
vector, found by climbing from several places; all rows then move together, and rows that explain no more than noise go again.
Each outer step is a `Search`, so that a run resumes as the other search does.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from exhume.attacks import search
from exhume.attacks.certificate import row_errors
from exhume.attacks.search import Pace, Plan, Search
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.linalg import streams
from exhume.linalg.precision import precision

# Norms may differ from sqrt(d) by this factor.
SLACK = 8.0
_PACE = Pace(growth=0.2, least=2, patience=4, gain=0.9)
_PRUNED_PACE = Pace(growth=0.0, least=0, patience=6, gain=0.5)
_MOST_STEPS = 60  # of one round
# Inner solves get longer as the loss falls below these: weak rows make the problem ill-conditioned.
_CG = ((1e-7, 10), (1e-4, 6), (math.inf, 2))
# Below this loss superfluous rows make the problem degenerate: the search tries to do without them.
_LEAN = 1e-7
# Rows that cost less are no samples: where features are smooth, many such rows together stand in for one that was missed.
_STAND_IN = 1e-7
# A row stays when its removal costs this multiple of what a row fitted to noise would cost.
_NOISE = 3.0
# A row whose relative standard error is above this stands for nothing yet.
_UNCERTAIN = 0.3
# Rows nearer than this, in units of sqrt(d), are one; new rows keep these distances from each other and from those found.
_SAME, _APART, _NEW = 0.1, 0.3, 0.1
_CANDIDATES, _CLIMB = 48, 25
_FIRST_STEP, _WANDER = 0.2, 0.7
# Rows count as unknowns with this power of the equations they leave free: 2 for linear ones, more since rows choose their place.
_COST = 4
# Rounds without a gain of a tenth after which the search has failed.
_PATIENCE = 4


def begin(problem: SpanProblem, *, seed: int) -> Search:
    """The first rows: where the weights themselves correlate most."""
    X = _climb(problem, problem.theta, torch.empty(0, problem.d).to(problem.theta), _PACE.least, seed=seed, key=0)
    return Search(X)


def advance(problem: SpanProblem, state: State, now: Search, plan: Plan, *, limit: int, seed: int) -> tuple[Search, State]:
    """One outer step: a Gauss-Newton step, or rows in and out, or the end."""
    floors = precision(problem.dtype)
    if now.fallback is not None and search.stalled(now.losses, _PRUNED_PACE) and state.loss > floors.converged:
        return search.undo_pruning(problem, now)
    over = search.stalled(now.losses, _PACE) or len(now.losses) > _MOST_STEPS
    if (over or state.loss <= floors.converged) and state.loss < _LEAN and now.fallback is None and now.full < _PATIENCE:
        strong = (problem.removal_costs(state) > _STAND_IN).nonzero().flatten().tolist()
        if 0 < len(strong) < state.m:
            return _extended(
                problem, replace(now, full=now.full + 1), state.X[strong], min(_PACE.least, limit - len(strong)), seed=seed
            )
    if state.loss <= floors.converged or (over and state.loss <= floors.certified):
        return search.prune(problem, state, now)
    if over and now.fallback is None and now.drop is None and state.loss < _LEAN:
        lean = search.without_spare_rows(problem, state, now, search.UNSUPPORTED_TIMES * state.loss)
        if lean is not None:
            return lean
    if over and now.fallback is None:
        return _reshape(problem, state, now, limit=limit, seed=seed)
    longer = next(times for below, times in _CG if state.loss < below)
    X = problem.step(state, damping=now.damping, cg_steps=longer * plan.cg_steps, cg_tolerance=plan.cg_tolerance / 10)
    trial = problem.state(X)
    better = trial.loss < state.loss
    kept = trial if better else state
    damping = max(now.damping / 3, 1e-9) if better else now.damping * 6
    return replace(now, X=kept.X, damping=damping, losses=(*now.losses, kept.loss), step=now.step + 1), kept


def _reshape(problem: SpanProblem, state: State, now: Search, *, limit: int, seed: int) -> tuple[Search, State]:
    """Rows that are noise or doubles out, a fifth more in."""
    X = state.X[_signal(problem, state)]
    free = problem.p * problem.k - state.m * (problem.d + problem.k)
    criterion = state.loss / max(1, free) ** _COST  # a fit to noise does not lower it
    gained = not now.level or criterion < 0.9 * now.level
    idle, best = (0, state.X) if gained else (now.full + 1, now.best)
    if idle > _PATIENCE or len(X) >= limit:  # a noise floor: the rows that stand out of it are all that can be had
        assert best is not None
        last = problem.state(best)
        last = problem.state(best[_signal(problem, last)])
        return replace(now, X=last.X, stage="failed"), last
    count = min(limit - len(X), max(_PACE.least, int(_PACE.growth * len(X))))
    level = criterion if gained else now.level
    return _extended(problem, replace(now, full=idle, level=level, best=best), X, count, seed=seed)


def _extended(problem: SpanProblem, now: Search, X: torch.Tensor, count: int, *, seed: int) -> tuple[Search, State]:
    """The rows X and `count` more, where what X leaves correlates most with a feature vector."""
    added = _climb(problem, problem.state(X).residual, X, count, seed=seed, key=now.round + 1)
    return search.restart(problem, now, torch.cat([X, added]), round=now.round + 1, drop=None)


def _signal(problem: SpanProblem, state: State) -> list[int]:
    """Rows that cost more than noise to remove, one of each bunch; the strongest at least, for the verdict to be about a row."""
    costs = problem.removal_costs(state)
    noise = _NOISE * max(state.loss, precision(problem.dtype).converged) * (problem.d + problem.k) / (problem.p * problem.k)
    near = torch.cdist(state.X, state.X) < _SAME * math.sqrt(problem.d)
    errors = row_errors(problem, state)
    kept: list[int] = []
    for i in costs.argsort(descending=True).tolist():
        if costs[i] > noise and errors[i] < _UNCERTAIN and not any(near[i, j] for j in kept):
            kept.append(i)
    return kept or [int(costs.argmax())]


def _climb(problem: SpanProblem, residual: torch.Tensor, found: torch.Tensor, count: int, *, seed: int, key: int) -> torch.Tensor:
    """Up to `count` rows at which |<r, phi(x)>| / ||phi(x)|| has a peak, from random places and from near the rows found."""
    r, unit = search.strongest(problem, residual)[:, None], math.sqrt(problem.d)
    total = max(_CANDIDATES, 2 * count)
    draw = streams.generator(seed, "climb", key)
    X = torch.randn(total, problem.d, generator=draw, dtype=torch.float64)
    X *= torch.exp(2 * torch.rand(total, 1, generator=draw, dtype=torch.float64) - 1)  # lengths from 1/e to e times sqrt(d)
    X = X.to(residual)
    if len(found):
        near = torch.randint(len(found), (total // 2,), generator=draw)
        noise = torch.randn(total // 2, problem.d, generator=draw, dtype=torch.float64)
        X[: total // 2] = found[near] + _WANDER * noise.to(residual)
    height, slope = correlation(problem, r, X)
    uphill = height.sign()[:, None]
    step = torch.full((total, 1), _FIRST_STEP * unit, dtype=X.dtype, device=X.device)
    for _ in range(_CLIMB):
        trial = problem.on_sphere(X + step * uphill * slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300))
        high, steep = correlation(problem, r, trial)
        better = (high * uphill[:, 0] > height * uphill[:, 0])[:, None]
        X, slope = torch.where(better, trial, X), torch.where(better, steep, slope)
        height = torch.where(better[:, 0], high, height)
        step = torch.where(better, 1.3 * step, 0.4 * step)
    kept: list[int] = []
    for i in height.abs().argsort(descending=True).tolist():
        new = not len(found) or float((X[i] - found).norm(dim=1).min()) > _NEW * unit
        if new and all(float((X[i] - X[j]).norm()) > _APART * unit for j in kept):
            kept.append(i)
        if len(kept) == count:
            break
    return X[kept].contiguous()


def correlation(problem: SpanProblem, r: torch.Tensor, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """<r, phi(x)> / ||phi(x)|| and its gradient for every row."""
    act = problem.features.activation
    inner, square = (torch.zeros(len(X), dtype=X.dtype, device=X.device) for _ in range(2))
    toward, along = torch.zeros_like(X), torch.zeros_like(X)
    for block in problem.blocks():
        Z = block.preactivation(X)
        phi, slope, rest = act.value(Z), act.slope(Z), r[block.rows]
        inner += (phi * rest).sum(0)
        square += (phi * phi).sum(0)
        toward += (slope * rest).T @ block.V
        along += (slope * phi).T @ block.V
    problem.passes += 3
    inner, square, toward, along = (problem.total(part) for part in (inner, square, toward, along))
    size = square.sqrt().clamp(min=1e-300)
    return inner / size, toward / size[:, None] - along * (inner / size**3)[:, None]
