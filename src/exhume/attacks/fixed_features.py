"""Weights that lie exactly in the span of features that did not move: the method behind `gauss-newton` on random features.

Which features carry the search, its start, its steps; then signs, a polish on all that the weights say, norms, certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from exhume import counting
from exhume.attacks.interface import Resources, claimed_rows
from exhume.attacks.proof import certificate
from exhume.attacks.proof.norms import norms_of_span
from exhume.attacks.proof.signs import resolve_signs
from exhume.attacks.run import Answer, Method, StepReport, time_to_loss
from exhume.attacks.search.candidates import Candidates, Stage, state_at
from exhume.attacks.search.growth import Growth, GrowthSettings, GrowthState, visible_on_more
from exhume.attacks.search.noise_floor import noise_cost
from exhume.attacks.search.polish import polished
from exhume.attacks.search.pursuit import Pursuit, PursuitSettings, PursuitState
from exhume.attacks.search.streaming import Streaming, StreamingSettings
from exhume.attacks.search.streaming_state import StreamingStage, StreamingState
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.feature_budget import FeatureBudget, share_of_features
from exhume.attacks.span.high_dimensional import FEATURES_PER_DIMENSION, HighDimensionalSpan
from exhume.attacks.span.problem import Point, State
from exhume.features import FeatureMemory
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.precision import precision
from exhume.release import Release
from exhume.result import Curve, Status


@dataclass(frozen=True)
class FixedFeaturesSettings:
    """Which features carry the search, and how it begins and ends. Set by hand on the problems of benchmarks/bars.py."""

    subsample: float = 3.0
    """Features per unknown coordinate that carry the search; the rest only verify."""

    cheap_entries: int = 8_000_000
    """Up to this many entries of V the search uses all features."""

    headroom: float = 1.25
    """First rows, as a multiple of those that stand out in the weights' second moment."""

    counted_entries: int = 400_000_000
    """Entries of V on which the rows that stand out are first counted."""

    most_visible: int = 24
    """Rows that stand out are counted up to this number."""

    high_dimension: int = 750
    """Inputs of this many dimensions or more are searched by streaming."""

    handed_over: float = 1e-6
    """Rows from streaming that leave no more loss than this go on to the full problem; others are dropped for rows grown anew."""

    nuisance_pays: int = 2
    """Nuisance columns are used where there are more than this many times as many weights: else they would fit everything."""

    polish_steps: int = 6
    """Steps on the problem without nuisance columns, at the end."""


@dataclass(frozen=True)
class FixedFeaturesState:
    """One step; exactly one of the three searches is under way."""

    streaming: StreamingState | None = None
    growth: GrowthState | None = None
    pursuit: PursuitState | None = None
    first_rows: int = 0  # that a further attempt begins with
    features: int = 0  # that carry the search

    @property
    def candidates(self) -> Candidates:
        """The rows of the growth or the pursuit."""
        now = self.growth if self.pursuit is None else self.pursuit
        assert now is not None
        return now

    def without_history(self) -> FixedFeaturesState:
        """The same rows, to be looked at on other features."""
        if self.pursuit is not None:
            return replace(self, pursuit=replace(self.pursuit, losses=(), state=None))
        assert self.growth is not None
        return replace(self, growth=replace(self.growth, losses=(), state=None))


class FixedFeatures(Method[FixedFeaturesState]):
    """One attack on one release whose features stayed as they were."""

    state_type = FixedFeaturesState

    def __init__(
        self,
        release: Release,
        resources: Resources,
        *,
        seed: int,
        rows: int | None,
        growth: GrowthSettings,
        settings: FixedFeaturesSettings,
    ) -> None:
        self.release, self.resources, self.seed = release, resources, seed
        self.growth, self.settings = growth, settings
        self.claimed = claimed_rows(rows, release)
        self.features = release.fixed_features(
            FeatureMemory(resources.device, share_of_features(resources.memory), resources.cache_folder, resources.team)
        )
        self.p, self.weights = self.features.p, self.features.own(release.weights[:, release.alive])
        act, norm = self.features.activation, release.facts.input_norm
        # Homogeneous features span the same line at every norm: any radius will do until the norms are resolved.
        self.radius = norm if norm is not None else (math.sqrt(release.d) if act.homogeneous else None)
        self._nuisance = self.p > settings.nuisance_pays * (release.d + 1)
        samples_show = self._nuisance and act.parity != "odd" and not act.phase
        enough = self.features.drawn and self.p >= FEATURES_PER_DIMENSION * release.d
        self._high_dimensional = samples_show and enough and self.radius is not None and release.d >= settings.high_dimension
        least = FEATURES_PER_DIMENSION * release.d if self._high_dimensional else 0
        self._budget = FeatureBudget(
            self.features, resources.memory, resources.team.size, least, settings.subsample, settings.cheap_entries
        )
        self.passes = PassCounter()
        self._windows: HighDimensionalSpan | None = None  # the problem that streaming reads window by window
        self._problem: BlockwiseSpan | None = None  # the problem of the last other step
        self.notes: list[str] = []

    # The problem on the features that carry the search.

    def _problem_on(self, count: int | None = None, *, nuisance: bool = True) -> BlockwiseSpan:
        """The span problem on the first `count` features."""
        self._budget.check(count or self.p, 1)
        if nuisance and self._high_dimensional and (count or self.p) >= FEATURES_PER_DIMENSION * self.release.d:
            return self._high_dimensional_problem(count)
        return BlockwiseSpan(
            self.features,
            self.weights,
            radius=self.radius,
            nuisance=nuisance and self._nuisance,
            count=count,
            norm_bound=PursuitSettings().norm_bound,
            passes=self.passes,
        )

    def _high_dimensional_problem(self, count: int | None = None) -> HighDimensionalSpan:
        assert self.radius is not None
        return HighDimensionalSpan(self.features, self.weights, radius=self.radius, count=count, passes=self.passes)

    def _problem_for(self, state: FixedFeaturesState) -> BlockwiseSpan:
        """The problem that a state belongs to: that of the last step, or made anew after a resume."""
        if self._problem is None:
            self._problem = self._problem_on(state.features)
        return self._problem

    # The start.

    def begin(self) -> FixedFeaturesState:
        """Rows from windows of features where inputs have many dimensions, else rows that stand out."""
        if self._high_dimensional and self.release.k == 1:
            windows = self._streaming_problem()
            return FixedFeaturesState(streaming=self._streaming(windows).begin(windows))
        return self._grown()

    def _grown(self) -> FixedFeaturesState:
        """The rows that stand out. With n claimed, all at once, which is fastest; later attempts grow from below."""
        first = max(2, math.ceil(self.settings.headroom * self._visible()))
        self._problem = problem = self._problem_on(self._budget.features_for(self.claimed or first))
        limit = self._limit(problem)
        if self.radius is None:  # norms count and are not known
            return FixedFeaturesState(pursuit=Pursuit(limit, self.seed).begin(problem), first_rows=first, features=problem.p)
        rows = self.claimed or min(first, limit)
        first = min(first, limit)
        grown = Growth(limit, first, self.seed, self.growth).begin(problem, rows)
        return FixedFeaturesState(growth=grown, first_rows=first, features=problem.p)

    def _visible(self) -> int:
        first = max(self.settings.counted_entries // self.release.d, 1)
        return visible_on_more(
            lambda count: self._problem_on(count, nuisance=False), first, self.p, self.seed, self.settings.most_visible
        )

    def _limit(self, problem: BlockwiseSpan) -> int:
        """Most rows that may be tried: those claimed, or as many as the equations can pin down."""
        return self.claimed if self.claimed is not None else counting.most_rows(problem.p, problem.d, problem.k)

    # The steps.

    def advance(self, state: FixedFeaturesState) -> FixedFeaturesState:
        """One step of the search that is under way, on more features as rows come in."""
        if state.streaming is not None:
            windows = self._streaming_problem()
            streaming = self._streaming(windows)
            if not streaming.done(state.streaming):
                return replace(state, streaming=streaming.advance(windows, state.streaming))
            state = self._handed_over(state.streaming)
        problem, changed = self._sized(self._problem_for(state), len(state.candidates.at.X))
        if changed:  # losses on other features do not compare
            self._problem = problem
            state = replace(state, features=problem.p).without_history()
        limit = self._limit(problem)
        if state.pursuit is not None:
            return replace(state, pursuit=Pursuit(limit, self.seed).advance(problem, state.pursuit))
        assert state.growth is not None
        growth = Growth(limit, state.first_rows, self.seed, self.growth)
        return replace(state, growth=growth.advance(problem, state.growth))

    def _streaming_problem(self) -> HighDimensionalSpan:
        """All features; each step reads a window of them."""
        if self._windows is None:
            self._windows = self._high_dimensional_problem()
        return self._windows

    def _streaming(self, problem: HighDimensionalSpan) -> Streaming:
        settings = StreamingSettings()
        return Streaming(self.claimed or Streaming.row_limit(problem, settings), self.seed, settings)

    def _handed_over(self, ended: StreamingState) -> FixedFeaturesState:
        """Rows from windows of features leave the full problem little to do; where streaming failed, rows are grown from below."""
        self._windows = None
        if ended.loss > self.settings.handed_over:
            return self._grown()
        rows = len(ended.rows.X)
        self._problem = problem = self._problem_on(self._budget.features_for(rows))
        at = Point(ended.rows.X, ended.rows.linear)
        near = GrowthState(at, step=ended.step, doubted=ended.stage is StreamingStage.DONE)
        return FixedFeaturesState(growth=near, first_rows=min(rows, self._limit(problem)), features=problem.p)

    def _sized(self, problem: BlockwiseSpan, rows: int) -> tuple[BlockwiseSpan, bool]:
        """The problem on more features where the rows need them, on fewer where memory demands it, and whether that changed."""
        needed = self._budget.features_for(rows)
        self._budget.check(needed, rows)
        if needed > problem.p:
            return problem.extended(needed), True
        if problem.p <= max(needed, self._budget.affordable(rows)):
            return problem, False
        return self._problem_on(needed), True

    def done(self, state: FixedFeaturesState) -> bool:
        """Whether the rows have converged or the search has failed."""
        return state.streaming is None and not state.candidates.searching

    def report(self, state: FixedFeaturesState) -> StepReport:
        """The rows under way."""
        if state.streaming is not None:
            now = state.streaming
            return StepReport(now.stage.value, now.step, now.loss, now.rows.X)
        rows = state.candidates
        return StepReport(rows.stage.value, rows.step, rows.loss, rows.at.X, rows.attempt)

    def time_left(self, state: FixedFeaturesState, curve: Curve) -> float | None:
        """Until the loss is at rounding."""
        return time_to_loss(curve, precision(self.release.weights.dtype).converged)

    # The end.

    def finish(self, state: FixedFeaturesState) -> Answer:
        """Signs, a polish on all that the weights say, norms, and the certificate."""
        problem, rows = self._problem_for(state), state.candidates
        at, converged = state_at(problem, rows), rows.stage is Stage.DONE
        costs, spare = certificate.cliff(problem, at, self.seed)
        signs = resolve_signs(problem, at)
        self.notes += [signs.note] if signs.note else []
        count, act = problem.p, self.features.activation
        del at, state, rows, problem  # features and slopes of the rows: the end needs its own
        self._problem = None
        exact = self._problem_on(count, nuisance=False)
        open_signs = not signs.resolved and act.parity == "linear-odd"
        # A polish would bend rows of the wrong sign.
        last = (
            exact.state(Point(signs.X))
            if open_signs
            else polished(exact, signs.X, self.growth.inner, steps=self.settings.polish_steps)
        )
        if exact.p < self.p and not open_signs:
            exact, last = self._verified(exact, last)
        found, scale = norms_of_span(exact, last, self.release.facts)
        proof = certificate.certify(exact, last, costs=costs, spare=spare)
        status, reason = certificate.judge(proof, converged=converged)
        if self.radius is None and status is Status.STALLED:  # the pursuit keeps only rows that stand out of a noise floor
            status, reason = certificate.judge_noisy(proof, noise=noise_cost(exact, last))
        if status is not Status.STALLED and not signs.resolved and act.parity in ("even", "odd"):
            self.notes.append(f"{act.name} hides the sign: each row is known up to its sign")
        return Answer(found, status, reason, proof, (*costs, *spare), signs.resolved, scale, tuple(self.notes))

    def _polished(self, exact: BlockwiseSpan, X: torch.Tensor) -> State:
        return polished(exact, X, self.growth.inner, steps=self.settings.polish_steps)

    def _verified(self, exact: BlockwiseSpan, state: State) -> tuple[BlockwiseSpan, State]:
        """The loss on all features, or as many as memory allows; polished there too when the subset left more than rounding."""
        count = self.features.blocks_within(min(self.p, self._budget.affordable(state.m)))
        if count < self.p:
            self.notes.append(f"verified on {max(count, exact.p)} of {self.p} features: --memory allows no more")
        if count <= exact.p:
            return exact, state
        larger = exact.extended(count)
        whole = larger.state(state.at)
        fits = whole.loss <= precision(exact.dtype).certified
        return larger, whole if fits else self._polished(larger, state.X)
