"""Search for rows of unknown, unequal norms under an activation that sees them: pursuit of the residual, row by row.

The second moment of the weights shows directions only. Here a row is born where the residual correlates most with a feature
vector, found by climbing from several places; all rows then move together, and rows that explain no more than noise go again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch

from exhume.attacks.proof.certificate import row_errors
from exhume.attacks.search.candidates import (
    UNSUPPORTED_TIMES,
    Candidates,
    InnerSolve,
    Stage,
    moved,
    pruned,
    restarted,
    state_at,
    taken_back,
    without_spare_rows,
)
from exhume.attacks.search.pace import Pace
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point, State
from exhume.linalg import streams
from exhume.linalg.precision import precision


@dataclass(frozen=True)
class PursuitSettings:
    """How rows of free norms are found. All values were set by hand on breast-cancer pipelines of 20, 30 and 50 patients, one seed
    each, and on CIFAR-10 at 8x8 pixels under relu+tanh, seed 1."""

    inner: InnerSolve = InnerSolve(steps=4, tolerance=0.1)
    """Conjugate gradients of one step, before they get longer."""

    longer_solves: tuple[tuple[float, int], ...] = ((1e-7, 10), (1e-4, 6), (math.inf, 2))
    """(loss, times): below this loss inner solves are so many times longer, since weak rows make the problem ill-conditioned."""

    pace: Pace = Pace(patience=4, gain=0.9, growth=0.2, least=2)
    pruned_pace: Pace = Pace(patience=6, gain=0.5)

    most_steps: int = 60
    """Steps of one round."""

    lean: float = 1e-7
    """Below this loss superfluous rows make the problem degenerate: the search tries to do without them."""

    stand_in: float = 1e-7
    """Rows that cost less are no samples: where features are smooth, many such rows together stand in for one that was missed."""

    noise_times: float = 3.0
    """A row stays when its removal costs this multiple of what a row fitted to noise would cost."""

    uncertain: float = 0.3
    """A row whose relative standard error is above this stands for nothing yet."""

    same: float = 0.1
    """Rows nearer than this, in units of sqrt(d), are one."""

    apart_from_each_other: float = 0.3
    """Distance that new rows keep from each other, in units of sqrt(d)."""

    apart_from_found: float = 0.1
    """Distance that new rows keep from those found, in units of sqrt(d)."""

    candidates: int = 48
    """Places from which a climb starts."""

    climb_steps: int = 25

    first_step: float = 0.2
    """Of a climb, in units of sqrt(d)."""

    wander: float = 0.7
    """Spread of the starts that lie near rows found, per coordinate."""

    cost_power: int = 4
    """Rows count as unknowns with this power of the equations that they leave free: 2 for linear ones, more since rows choose
    their place."""

    patience: int = 4
    """Rounds without a gain of a tenth after which the search has failed."""

    norm_bound: float = 8.0
    """Norms may differ from sqrt(d) by this factor."""


@dataclass(frozen=True)
class PursuitState(Candidates):
    """One step of a pursuit."""

    idle_rounds: int = 0  # rounds without a gain
    best: torch.Tensor | None = None  # the rows with the smallest criterion so far
    best_criterion: float = 0.0  # loss over a power of the equations that the rows leave free; 0: none yet


@dataclass(frozen=True)
class Pursuit:
    """The strategy: at most `limit` rows."""

    limit: int
    seed: int
    settings: PursuitSettings = field(default_factory=PursuitSettings)

    def begin(self, problem: BlockwiseSpan) -> PursuitState:
        """The first rows: where the weights themselves correlate most."""
        nothing = torch.empty(0, problem.d).to(problem.theta)
        X = _climb(problem, problem.theta, nothing, self.settings.pace.least, self.settings, seed=self.seed, key=0)
        return PursuitState(Point(X))

    def done(self, now: PursuitState) -> bool:
        """Whether the search has ended, one way or the other."""
        return not now.searching

    def advance(self, problem: BlockwiseSpan, now: PursuitState) -> PursuitState:
        """One outer step: a Gauss-Newton step, or rows in and out, or the end."""
        settings, floors = self.settings, precision(problem.dtype)
        state = state_at(problem, now)
        now = replace(now, state=state)
        converged, trying = state.loss <= floors.converged, now.without is not None
        if trying and settings.pruned_pace.stalled(now.losses) and not converged:
            return taken_back(problem, now)
        over = settings.pace.stalled(now.losses) or len(now.losses) > settings.most_steps
        if (over or converged) and state.loss < settings.lean and not trying and now.idle_rounds < settings.patience:
            strong = (problem.removal_costs(state) > settings.stand_in).nonzero().flatten().tolist()
            if 0 < len(strong) < state.m:
                again = replace(now, idle_rounds=now.idle_rounds + 1)
                return self._extended(problem, again, state.X[strong], min(settings.pace.least, self.limit - len(strong)))
        if converged or (over and state.loss <= floors.certified):
            return pruned(problem, now)
        if over and not trying and now.most_to_drop is None and state.loss < settings.lean:
            lean = without_spare_rows(problem, now, UNSUPPORTED_TIMES * state.loss)
            if lean is not None:
                return lean
        if over and not trying:
            return self._reshaped(problem, now)
        times = next(times for below, times in settings.longer_solves if state.loss < below)
        return moved(problem, now, settings.inner.longer(times))

    def _reshaped(self, problem: BlockwiseSpan, now: PursuitState) -> PursuitState:
        """Rows that are noise or doubles out, a fifth more in."""
        state, settings = state_at(problem, now), self.settings
        X = state.X[self._signal(problem, state)]
        free = problem.equations - problem.unknowns(state.m)
        criterion = state.loss / max(1, free) ** settings.cost_power  # a fit to noise does not lower it
        gained = not now.best_criterion or criterion < 0.9 * now.best_criterion
        idle, best = (0, state.X) if gained else (now.idle_rounds + 1, now.best)
        if idle > settings.patience or len(X) >= self.limit:  # a noise floor: rows that stand out of it are all that can be had
            assert best is not None
            last = problem.state(Point(best))
            last = problem.state(Point(best[self._signal(problem, last)]))
            return replace(now, at=last.at, state=last, stage=Stage.FAILED)
        level = criterion if gained else now.best_criterion
        again = replace(now, idle_rounds=idle, best_criterion=level, best=best)
        return self._extended(problem, again, X, min(self.limit - len(X), settings.pace.added(len(X))))

    def _extended(self, problem: BlockwiseSpan, now: PursuitState, X: torch.Tensor, count: int) -> PursuitState:
        """The rows X and `count` more, where what X leaves correlates most with a feature vector."""
        residual = problem.state(Point(X)).residual
        added = _climb(problem, residual, X, count, self.settings, seed=self.seed, key=now.round + 1)
        return restarted(problem, now, Point(torch.cat([X, added])), round=now.round + 1, most_to_drop=None)

    def _signal(self, problem: BlockwiseSpan, state: State) -> list[int]:
        """Rows that cost more than noise to remove, one of each bunch; at least the strongest, so that a verdict is about a row."""
        settings = self.settings
        costs = problem.removal_costs(state)
        noise = settings.noise_times * problem.noise_cost(max(state.loss, precision(problem.dtype).converged))
        near = torch.cdist(state.X, state.X) < settings.same * math.sqrt(problem.d)
        errors = row_errors(problem, state)
        kept: list[int] = []
        for i in costs.argsort(descending=True).tolist():
            if costs[i] > noise and errors[i] < settings.uncertain and not any(near[i, j] for j in kept):
                kept.append(i)
        return kept or [int(costs.argmax())]


def _climb(
    problem: BlockwiseSpan,
    residual: torch.Tensor,
    found: torch.Tensor,
    count: int,
    settings: PursuitSettings,
    *,
    seed: int,
    key: int,
) -> torch.Tensor:
    """Up to `count` rows at which |<r, phi(x)>| / ||phi(x)|| has a peak, from random places and from near the rows found."""
    r, unit = problem.strongest(residual)[:, None], math.sqrt(problem.d)
    total = max(settings.candidates, 2 * count)
    draw = streams.generator(seed, "climb", key)
    X = torch.randn(total, problem.d, generator=draw, dtype=torch.float64)
    X *= torch.exp(2 * torch.rand(total, 1, generator=draw, dtype=torch.float64) - 1)  # lengths from 1/e to e times sqrt(d)
    X = X.to(residual)
    if len(found):
        near = torch.randint(len(found), (total // 2,), generator=draw)
        noise = torch.randn(total // 2, problem.d, generator=draw, dtype=torch.float64)
        X[: total // 2] = found[near] + settings.wander * noise.to(residual)
    height, slope = correlation(problem, r, X)
    uphill = height.sign()[:, None]
    step = torch.full((total, 1), settings.first_step * unit, dtype=X.dtype, device=X.device)
    for _ in range(settings.climb_steps):
        trial = problem.on_sphere(X + step * uphill * slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-300))
        high, steep = correlation(problem, r, trial)
        better = (high * uphill[:, 0] > height * uphill[:, 0])[:, None]
        X, slope = torch.where(better, trial, X), torch.where(better, steep, slope)
        height = torch.where(better[:, 0], high, height)
        step = torch.where(better, 1.3 * step, 0.4 * step)
    kept: list[int] = []
    for i in height.abs().argsort(descending=True).tolist():
        new = not len(found) or float((X[i] - found).norm(dim=1).min()) > settings.apart_from_found * unit
        if new and all(float((X[i] - X[j]).norm()) > settings.apart_from_each_other * unit for j in kept):
            kept.append(i)
        if len(kept) == count:
            break
    return X[kept].contiguous()


def correlation(problem: BlockwiseSpan, r: torch.Tensor, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
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
    problem.passes.add(3)
    inner, square, toward, along = (problem.total(part) for part in (inner, square, toward, along))
    size = square.sqrt().clamp(min=1e-300)
    return inner / size, toward / size[:, None] - along * (inner / size**3)[:, None]
