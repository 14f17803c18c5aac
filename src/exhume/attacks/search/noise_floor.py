"""Rows out of weights that are only nearly in the span: trained features drift, so the loss has a floor above rounding.

The rows then cannot be told by a zero loss. They are grown until further ones gain no more than a fit to noise would; rows whose
removal costs no more than noise go again, and the rest settles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch

from exhume.attacks.proof.duplicate_rows import distinct_rows, repeated
from exhume.attacks.search.candidates import Candidates, InnerSolve, moved, state_at
from exhume.attacks.search.growth import Growth, GrowthState
from exhume.attacks.search.pace import Pace
from exhume.attacks.span.problem import Point, Span, State


@dataclass(frozen=True)
class NoiseFloorSettings:
    """Where signal ends. All values were set on seeds 0 and 1 of the two-layer sphere problem (d = 100, n = 20, k = 10) at 10 dn
    and at 1 dn."""

    least_gain: float = 0.08
    """Further rows must lower the loss by this share, ..."""

    caution: float = 8.0
    """... and by this multiple of the share that a fit to noise would gain."""

    significant: float = 30.0
    """A row stays when its removal costs this multiple of what a row fitted to noise would cost."""

    settled: Pace = Pace(patience=5, gain=0.98)
    """Rows have settled when the loss stands still by this rule."""

    most_steps: int = 200
    """Steps of one settling."""

    most_damping: float = 1e3
    """Steps that need more damping than this lead nowhere."""

    first_damping: float = 1e-3
    """Of a settling, whose rows are near already."""


@dataclass(frozen=True)
class Settling:
    """Gauss-Newton steps with the number of rows fixed, until the loss stands still."""

    inner: InnerSolve
    settings: NoiseFloorSettings = field(default_factory=NoiseFloorSettings)

    def begin(self, problem: Span, X: torch.Tensor) -> Candidates:
        """These rows, before the first step."""
        state = problem.state(Point(X.contiguous()))
        return Candidates(state.at, damping=self.settings.first_damping, losses=(state.loss,), state=state)

    def advance(self, problem: Span, now: Candidates) -> Candidates:
        """One Gauss-Newton step."""
        return moved(problem, now, self.inner)

    def done(self, now: Candidates) -> bool:
        """Whether the loss stands still, or steps are used up."""
        settings = self.settings
        return now.step >= settings.most_steps or settings.settled.stalled(now.losses) or now.damping > settings.most_damping


@dataclass(frozen=True)
class FitState:
    """One fit: first its growth, then the settling of what was grown."""

    growth: GrowthState | None = None
    settling: Candidates | None = None
    reference_loss: float = math.inf  # of the last set of rows that could do no better
    reference_rows: int = 0
    ended: bool = False

    @property
    def rows(self) -> Candidates:
        """The candidates, whichever stage they are in."""
        now = self.growth if self.settling is None else self.settling
        assert now is not None
        return now


@dataclass(frozen=True)
class NoiseFloor:
    """The strategy: a fit from `growth.first_rows` rows, or with `claimed` rows in the end where somebody knows n."""

    growth: Growth
    settling: Settling
    claimed: int | None = None
    settings: NoiseFloorSettings = field(default_factory=NoiseFloorSettings)

    def begin(self, problem: Span) -> FitState:
        """The first rows of the growth."""
        return FitState(self.growth.begin(problem, self.growth.first_rows))

    def done(self, now: FitState) -> bool:
        """Whether the fit has ended."""
        return now.ended

    def advance(self, growing: Span, settling: Span, now: FitState) -> FitState:
        """One outer step, of the growth (norms held) or of the settling (norms free where they count and are not known)."""
        if now.settling is not None:
            return self._settled(settling, now, now.settling)
        after = self._grown(growing, now)
        return after if isinstance(after, FitState) else FitState(settling=self.settling.begin(settling, after))

    def _grown(self, problem: Span, now: FitState) -> FitState | torch.Tensor:
        """One step of the growth, or the rows that it ends with: further ones gain no more than noise."""
        before = now.growth
        assert before is not None
        state = state_at(problem, before)
        after = self.growth.advance(problem, replace(before, state=state))
        level, rows = now.reference_loss, now.reference_rows
        if after.round > before.round or after.attempt > before.attempt:  # the rows of `state` can do no better
            noise = (state.m - rows) * problem.d / problem.equations
            share = max(self.settings.least_gain, self.settings.caution * noise)
            at_limit = state.m >= self.growth.limit
            if state.loss > (1 - share) * level or at_limit:
                return state.X if at_limit else after.at.X
            level, rows = state.loss, state.m
        if self.growth.done(after):
            return after.at.X
        return FitState(after, reference_loss=level, reference_rows=rows)

    def _settled(self, problem: Span, now: FitState, rows: Candidates) -> FitState:
        """One step of the settling; settled rows that do not stand out of the noise go, half of them at a time."""
        if not self.settling.done(rows):
            return replace(now, settling=self.settling.advance(problem, rows))
        state = state_at(problem, rows)
        weak = self._weak(problem, state)
        if not weak or len(weak) >= state.m:
            return replace(now, settling=replace(rows, state=state), ended=True)
        gone = set(weak[: max(1, len(weak) // 2)])
        kept = [i for i in range(state.m) if i not in gone]
        return replace(now, settling=self.settling.begin(problem, state.X[kept]))

    def _weak(self, problem: Span, state: State) -> list[int]:
        """Rows that are noise or repeats, the weakest first; with n claimed, all beyond the n strongest."""
        costs = problem.removal_costs(state)
        if self.claimed is not None:
            return costs.argsort().tolist()[: max(0, state.m - self.claimed)]
        distinct = set(distinct_rows(repeated(state.X), costs).tolist())
        noise = noise_cost(problem, state, self.settings)
        return [i for i in costs.argsort().tolist() if i not in distinct or costs[i] < noise]


def noise_cost(problem: Span, state: State, settings: NoiseFloorSettings | None = None) -> float:
    """The removal cost below which a row may be noise."""
    return (settings or NoiseFloorSettings()).significant * problem.noise_cost(state.loss)


def best_fit(problem: Span, fits: list[State]) -> State:
    """The fit with the smallest loss, rows counted as unknowns: loss / (equations - unknowns)^2."""

    def criterion(state: State) -> float:
        free = problem.equations - problem.unknowns(state.m)
        return state.loss / max(1, free) ** 2 if free > 0 else float("inf")

    return min(fits, key=criterion)
