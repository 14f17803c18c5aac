"""Grow and prune: damped Gauss-Newton on few rows, more rows when it stalls, superfluous rows out when it has converged.

Growing from below is what makes the search robust: each new row starts where the residual's second moment points, so the
rows found so far are refined rather than searched anew, and n need not be known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from exhume.attacks.proof.doubtful_rows import recovered_loss
from exhume.attacks.proof.duplicate_rows import distinct_rows, repeated
from exhume.attacks.search.candidates import (
    UNSUPPORTED,
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
from exhume.attacks.span.problem import Moments, Point, Span
from exhume.linalg import streams
from exhume.linalg.krylov import krylov_width, top_eigenpairs
from exhume.linalg.precision import precision


@dataclass(frozen=True)
class GrowthSettings:
    """How rows are grown. All values were set by hand on the sphere problems `sphere-4` and `sphere-2` of benchmarks/bars.py, on
    its digits and breast-cancer problems, and on CIFAR-10 with n = 10, seed 0."""

    inner: InnerSolve = InnerSolve(steps=4, tolerance=0.1)
    """Conjugate gradients of one step."""

    starts: int = 4
    """Attempts from new rows before the search gives up."""

    rounds_at_limit: int = 6
    """Rounds at the largest admissible number of rows before a new attempt."""

    turnover: float = 0.1
    """Share of the weakest rows replaced when stalled; 0 replaces those that explain no more than noise."""

    noise_times: float = 4.0
    """With no turnover: drop rows whose loss reduction is under this multiple of that of a row fitted to noise."""

    first_pace: Pace = Pace(patience=4, gain=0.85, growth=0.25, least=2)
    """The first attempt hurries, which is enough well above the threshold."""

    pruned_pace: Pace = Pace(patience=4, gain=0.3)
    """Rows that remain after a pruning converge at once if it was right."""

    near: float = 1e-6
    """Below this loss the basin is found: inner solves get longer, and superfluous rows make the problem degenerate."""

    near_solve: int = 6
    """How many times longer inner solves are there."""

    near_gain: float = 0.1
    """There a gain of less than tenfold per `patience` steps is slow, and superfluous rows are looked for."""

    def pace(self, attempt: int) -> Pace:
        """Later attempts take their time."""
        return self.first_pace if attempt == 0 else Pace(patience=5, gain=0.9, growth=0.2 / attempt, least=1)


@dataclass(frozen=True)
class GrowthState(Candidates):
    """One step of a growth."""

    at_limit: int = 0  # rounds spent at the row limit


@dataclass(frozen=True)
class Growth:
    """The strategy: from `first_rows` rows to at most `limit`."""

    limit: int
    first_rows: int
    seed: int
    settings: GrowthSettings = field(default_factory=GrowthSettings)

    def begin(self, problem: Span, rows: int, *, attempt: int = 0, step: int = 0) -> GrowthState:
        """A first set of rows; later attempts mix the eigenvectors at random."""
        vector = problem.strongest(problem.theta)
        X = fresh_rows(problem, vector, rows, seed=self.seed, key=1000 * attempt, mix=attempt > 0)
        return GrowthState(Point(X), attempt=attempt, step=step)

    def done(self, now: GrowthState) -> bool:
        """Whether the search has ended, one way or the other."""
        return not now.searching

    def advance(self, problem: Span, now: GrowthState) -> GrowthState:
        """One outer step: a Gauss-Newton step, or new rows, or rows out, or the end."""
        settings, floors = self.settings, precision(problem.dtype)
        state = state_at(problem, now)
        now = replace(now, state=state)
        pace = settings.pace(now.attempt)
        no_gain = pace.stalled(now.losses)
        judged = now.without is not None and settings.pruned_pace.stalled(now.losses)
        needed = now.without is not None and state.loss > recovered_loss(now.without.loss, converged=floors.converged)
        if state.loss <= floors.converged or ((no_gain or judged) and state.loss <= floors.certified and not needed):
            return pruned(problem, now)
        if judged:
            return taken_back(problem, now)
        near = state.loss < settings.near
        slow = replace(pace, gain=settings.near_gain).stalled(now.losses)
        if near and slow and now.without is None and now.most_to_drop is None:
            lean = without_spare_rows(problem, now, UNSUPPORTED)
            if lean is not None:
                return lean
        if no_gain and now.without is None:
            return self._reshaped(problem, now, pace)
        solve = settings.inner.longer(settings.near_solve) if near else settings.inner
        return moved(problem, now, solve, keep_losses=max(pace.patience, settings.pruned_pace.patience) + 1)

    def _reshaped(self, problem: Span, now: GrowthState, pace: Pace) -> GrowthState:
        """Merge repeated rows, replace the weakest, and grow towards the limit along the residual's moments."""
        state, settings = state_at(problem, now), self.settings
        at_limit = state.m >= self.limit
        if at_limit and now.at_limit >= settings.rounds_at_limit:
            if now.attempt + 1 >= settings.starts:
                return replace(now, stage=Stage.FAILED)
            fresh = self.begin(problem, self.first_rows, attempt=now.attempt + 1, step=now.step)
            return restarted(problem, fresh, fresh.at)
        target = min(self.limit, state.m + pace.added(state.m))
        costs = problem.removal_costs(state)
        noise = settings.noise_times * problem.noise_cost(state.loss)
        weak = int(settings.turnover * state.m) or int((costs < noise).sum())
        keep = distinct_rows(repeated(state.X), costs)[: max(1, state.m - weak)]
        if at_limit and len(keep) == state.m:
            keep = keep[:-1]
        key = 1000 * now.attempt + now.round + 1
        added = fresh_rows(problem, problem.strongest(state.residual), target - len(keep), seed=self.seed, key=key, mix=False)
        again = replace(
            now, stage=Stage.GROW, most_to_drop=None, doubted=False, round=now.round + 1, at_limit=now.at_limit + int(at_limit)
        )
        return restarted(problem, again, state.with_rows(torch.cat([state.X[keep], added])))


def fresh_rows(problem: Span, vector: torch.Tensor, count: int, *, seed: int, key: int, mix: bool) -> torch.Tensor:
    """New rows: top eigenvectors of the moment matrix of `vector` (or random mixtures of them), random where it is blind."""
    if problem.moments is None:
        rows = streams.random_directions(count, problem.d, seed=seed, purpose="rows", block=key)
    else:
        _, vectors = _moment_pairs(problem.moments, problem, vector, min(count, problem.d), seed=seed, key=key)
        rows = vectors.T
        if mix or count > rows.shape[0]:
            mixing = streams.random_directions(count, rows.shape[0], seed=seed, purpose="mixing", block=key)
            mixed = mixing.to(rows.device) @ rows
            rows = mixed if mix else torch.cat([rows, mixed[: count - rows.shape[0]]])
    rows = rows.to(problem.device, problem.dtype)
    # Contiguous, as a checkpoint restores them: another layout would round differently.
    return (rows * (problem.typical_norm / rows.norm(dim=1, keepdim=True))).contiguous()


def _moment_pairs(
    moments: Moments, problem: Span, vector: torch.Tensor, count: int, *, seed: int, key: int
) -> tuple[torch.Tensor, torch.Tensor]:
    width = krylov_width(count, problem.d)
    start = streams.random_directions(problem.d, width, seed=seed, purpose="krylov", block=key).to(problem.device)
    return top_eigenpairs(lambda W: moments(vector, W), start, count)


# Eigenvalues that leave the bulk by this factor count as samples. Set on the sphere problems of benchmarks/bars.py.
_OUTLIER = 1.1


def visible_rows(problem: Span, seed: int, most: int = 24) -> int:
    """Samples (at most `most`) whose eigenvalue leaves the bulk; its edge is that of the same weights with shuffled signs."""
    if problem.moments is None:
        return 0
    vector = problem.strongest(problem.theta)
    count = min(most, max(1, problem.d // 2))
    values, _ = _moment_pairs(problem.moments, problem, vector, count, seed=seed, key=0)
    flips = problem.random_signs(streams.generator(seed, "flips"))
    edge, _ = _moment_pairs(problem.moments, problem, vector * flips.to(vector), 1, seed=seed, key=0)
    return int((values.abs() > _OUTLIER * edge.abs()[0]).sum())


def visible_on_more(problem_on: Callable[[int], Span], first: int, p: int, seed: int, most: int) -> int:
    """Samples that stand out on the first `first` of p features, and on four times as many until at least half of `most` do."""
    count = min(p, first)
    while True:
        problem = problem_on(count)
        visible = visible_rows(problem, seed, most=most)
        if 2 * visible >= most or problem.p >= p:
            return visible
        count = min(p, 4 * problem.p)
