"""A network whose features moved while it was trained: fits from several numbers of rows, the best of them with signs and norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from exhume import counting
from exhume.attacks.interface import Resources, claimed_rows
from exhume.attacks.proof import certificate
from exhume.attacks.proof.norms import norms_of_network
from exhume.attacks.proof.signs import Signs, resolve_signs
from exhume.attacks.run import Answer, Method, StepReport, time_to_loss
from exhume.attacks.search.candidates import Candidates, state_at
from exhume.attacks.search.growth import Growth, GrowthSettings, visible_rows
from exhume.attacks.search.noise_floor import FitState, NoiseFloor, Settling, best_fit, noise_cost
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point, Span, State
from exhume.attacks.span.trained_network import LINEARISATION_POINTS, learned, network_problem
from exhume.errors import ExhumeError
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.precision import precision
from exhume.release import Release
from exhume.result import Curve


@dataclass(frozen=True)
class TrainedFeaturesSettings:
    """How many fits there are. Set on the two-layer sphere problem, seeds 0 and 1."""

    headroom: float = 1.25
    """First rows, as a multiple of those that stand out (or of the learned subspace's dimension)."""

    explained: float = 1e-3
    """With n claimed, a fit from a random start that leaves no more than this needs no second one."""


@dataclass(frozen=True)
class TrainedFeaturesState:
    """One step: the rows of the fits that have ended, and the fit or the end that is under way."""

    fits: tuple[torch.Tensor, ...] = ()
    fit: FitState | None = None
    end: Candidates | None = None  # the best fit with its signs, settling without nuisance columns
    signs_resolved: bool = False
    note: str = ""  # about the signs
    spare_costs: tuple[float, ...] = ()  # of random rows added on top of the best fit
    steps: int = 0
    last_loss: float = math.inf  # of the last step
    ended: bool = False


class TrainedFeatures(Method[TrainedFeaturesState]):
    """One attack on one network's release, in the full space or inside a subspace x = Q z."""

    state_type = TrainedFeaturesState

    def __init__(
        self,
        release: Release,
        resources: Resources,
        *,
        seed: int,
        rows: int | None,
        linearise: str,
        growth: GrowthSettings,
        basis: torch.Tensor | None = None,  # Q (d, r)
        notes: tuple[str, ...] = (),
        settings: TrainedFeaturesSettings | None = None,
    ) -> None:
        if linearise not in LINEARISATION_POINTS:
            known = ", ".join(LINEARISATION_POINTS)
            raise ExhumeError(f"the linearisation point must be one of {known}, got {linearise!r}.")
        self.release, self.seed, self.growth, self.basis = release, seed, growth, basis
        self.settings = settings or TrainedFeaturesSettings()
        self.claimed = claimed_rows(rows, release)
        self.passes = PassCounter()
        point = linearise if len(release.initial) > 1 else "trained"
        spec = release.network
        lacking = () if spec.head_weight in release.initial else ("theta_0 of the last layer is not known: its size acts as noise",)
        self.notes = (*lacking, f"features taken at the {point} weights", *notes)
        fixed = release.facts.input_norm is not None or spec.homogeneous
        self.radius = (release.facts.input_norm or math.sqrt(release.d)) if fixed else None
        device = torch.device(resources.device)
        # While rows grow their norms are held; from then on they are free where they count (biases, layer norms) and are not known.
        whole = network_problem(release, learned(release), point=point, device=device, basis=basis, passes=self.passes)
        self._growing, self._settling = whole.with_radius(self.radius or math.sqrt(release.d)), whole.with_radius(self.radius)
        self._starts: tuple[int, ...] = ()  # numbers of rows to start from, once they are known

    def _first_rows(self) -> tuple[int, ...]:
        """Numbers of rows to start from: all where n is claimed, few and growing, and what the learned subspace suggests."""
        if not self._starts:
            headroom = self.settings.headroom
            visible = max(2, math.ceil(headroom * visible_rows(self._growing, self.seed)))
            starts = [self.claimed or visible, 2]
            if self.basis is not None:  # independent samples span as many dimensions as there are of them
                starts += [self.basis.shape[1], math.ceil(headroom * self.basis.shape[1])]
            self._starts = tuple(dict.fromkeys(starts))
        return self._starts

    def _strategy(self, fit: int) -> NoiseFloor:
        """The search of one fit."""
        problem = self._growing
        limit = self.claimed if self.claimed is not None else counting.most_rows(problem.p, problem.d, problem.k)
        growth = Growth(limit, min(self._first_rows()[fit], limit), self.seed, self.growth)
        return NoiseFloor(growth, Settling(self.growth.inner.longer(2)), self.claimed)

    def begin(self) -> TrainedFeaturesState:
        """The first fit."""
        return TrainedFeaturesState(fit=self._strategy(0).begin(self._growing))

    def advance(self, state: TrainedFeaturesState) -> TrainedFeaturesState:
        """One step of a fit or of the end, or the next fit."""
        if state.end is not None:
            return self._ending(state, state.end)
        if state.fit is None:
            enough = len(state.fits) >= len(self._first_rows()) or self._explained(state)
            if enough:
                return self._begin_end(state)
            state = replace(state, fit=self._strategy(len(state.fits)).begin(self._growing))
        assert state.fit is not None
        strategy = self._strategy(len(state.fits))
        fit = strategy.advance(self._growing, self._settling, state.fit)
        now = replace(state, fit=fit, steps=state.steps + 1, last_loss=fit.rows.loss)
        if not strategy.done(fit):
            return now
        return replace(now, fit=None, fits=(*state.fits, fit.rows.at.X))

    def _explained(self, state: TrainedFeaturesState) -> bool:
        """Whether further starts can be left out: n is claimed and a slow random start fits."""
        claimed = self.claimed is not None and self._growing.moments is None
        return claimed and bool(state.fits) and state.last_loss < self.settings.explained

    def _begin_end(self, state: TrainedFeaturesState) -> TrainedFeaturesState:
        """The best fit with its signs, on the problem where the sign counts."""
        problem = self._settling
        best = best_fit(problem, [problem.state(Point(X)) for X in state.fits])
        _, spare = certificate.cliff(problem, best, self.seed)
        signs = self._signed(best)
        end = self._final().begin(self._exact, signs.X)
        return replace(
            state,
            end=end,
            signs_resolved=signs.resolved,
            note=signs.note,
            spare_costs=spare,
            steps=state.steps + 1,
            last_loss=end.loss,
            ended=not signs.resolved,  # a settling would bend rows of the wrong sign
        )

    def _ending(self, state: TrainedFeaturesState, end: Candidates) -> TrainedFeaturesState:
        """Settle without nuisance columns."""
        if self._final().done(end):
            return replace(state, ended=True)
        after = self._final().advance(self._exact, end)
        return replace(state, end=after, steps=state.steps + 1, last_loss=after.loss)

    def _final(self) -> Settling:
        return Settling(self.growth.inner.longer(2))

    @cached_property
    def _exact(self) -> Span:
        """The problem without nuisance columns."""
        return self._settling.without_nuisance()

    def _signed(self, best: State) -> Signs:
        """The best fit with its signs."""
        problem = self._settling
        if not problem.nuisance:
            return Signs(True, best.X)  # the sign was in the landscape all along
        assert isinstance(problem, BlockwiseSpan)  # no other problem has nuisance columns
        return resolve_signs(problem, best, noisy=True)

    def done(self, state: TrainedFeaturesState) -> bool:
        """Whether the end has settled."""
        return state.ended

    def report(self, state: TrainedFeaturesState) -> StepReport:
        """The rows under way, in the inputs' own space."""
        stage, rows = ("settle", None) if state.end is None else ("end", state.end)
        if state.fit is not None:
            stage, rows = ("settle" if state.fit.settling is not None else state.fit.rows.stage.value), state.fit.rows
        X = state.fits[-1] if rows is None else rows.at.X
        return StepReport(stage, state.steps, state.last_loss, self._inputs(X), 0 if rows is None else rows.attempt)

    def _inputs(self, X: torch.Tensor) -> torch.Tensor:
        return X if self.basis is None else X @ self.basis.to(X).T

    def time_left(self, state: TrainedFeaturesState, curve: Curve) -> float | None:
        """Until the loss were at rounding, where drift lets it."""
        return time_to_loss(curve, precision(self.release.weights.dtype).converged)

    def finish(self, state: TrainedFeaturesState) -> Answer:
        """The settled rows at their norms, and how sure they are."""
        assert state.end is not None
        exact = self._exact
        last = state_at(exact, state.end)
        rows, scale = norms_of_network(self.release, self._inputs(last.X))
        costs = tuple(exact.removal_costs(last).tolist())
        proof = certificate.certify(exact, last, costs=costs, spare=state.spare_costs)
        status, reason = certificate.judge_noisy(proof, noise=noise_cost(exact, last))
        notes = (*self.notes, state.note) if state.note else self.notes
        return Answer(rows, status, reason, proof, (*costs, *state.spare_costs), state.signs_resolved, scale, notes)
