"""The course of an attack on a network: fits from several numbers of rows, the best of them with signs and scale, resumable."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from exhume.attacks import certificate, noisy, search
from exhume.attacks.base import Attack, Clock, Progress, Resources, Watch, check_rows, checkpoint_of, estimate_eta
from exhume.attacks.network import POINTS, learned, network_problem
from exhume.attacks.scale import network_scale
from exhume.attacks.search import Plan
from exhume.attacks.signs import resolve_signs
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import Span, State
from exhume.errors import ExhumeError
from exhume.features.networks import homogeneous
from exhume.linalg.precision import precision
from exhume.release import NetworkSpec, Release
from exhume.result import Curve, Reconstruction

_HEADROOM = 1.25
# With n claimed, a fit from a random start that leaves no more than this needs no second one.
_EXPLAINED = 1e-3


@dataclass(frozen=True)
class _Kept:
    """What a run has finished: the rows of whole fits, and the last step of the one (or of the end) under way."""

    fits: tuple[torch.Tensor, ...] = ()
    step: noisy.Step | None = None


class NetworkRun:
    """One attack on one network's release, in the full space or inside a subspace x = Q z."""

    def __init__(
        self,
        attack: Attack,
        plan: Plan,
        release: Release,
        seed: int,
        watch: Watch,
        resources: Resources,
        *,
        point: str,
        rows: int | None,
    ) -> None:
        assert isinstance(release.features, NetworkSpec)
        self.spec = release.features
        if point not in POINTS:
            raise ExhumeError(f"the linearisation point must be one of {', '.join(POINTS)}, got {point!r}.")
        self.name, self.plan, self.release, self.seed, self.watch = attack.name, plan, release, seed, watch
        self.device, self.dtype = torch.device(resources.device), release.weights.dtype
        self.known_n = rows if rows is not None else release.facts.n
        check_rows(self.known_n, release)
        self.learned = learned(release)
        self.point = point if len(release.initial) > 1 else "trained"
        self.notes = (
            []
            if f"{self.spec.head}.weight" in release.initial
            else ["theta_0 of the last layer is not known: its size acts as noise"]
        )
        self.notes.append(f"features taken at the {self.point} weights")
        fixed = release.facts.input_norm is not None or homogeneous(self.spec)
        self.radius = (release.facts.input_norm or math.sqrt(release.d)) if fixed else None
        self.clock, self.curve = Clock(), Curve()
        self.checkpoint = checkpoint_of(resources, attack, release, seed)
        self.kept = _Kept()
        self.basis: torch.Tensor | None = None

    def run(self, basis: torch.Tensor | None = None) -> Reconstruction:
        """Grow, prune, resolve signs, settle without nuisance columns, and say how sure the rows are."""
        self.basis = basis
        problem = network_problem(self.release, self.learned, point=self.point, device=self.device, basis=basis)
        limit = search.row_limit(problem, self.known_n)
        starts = self._starts(problem, basis)
        self._resume(problem)
        try:
            for start in starts[len(self.kept.fits) :]:
                if self._explained(problem):
                    break
                self._fit(problem, min(start, limit), limit)
            return self._finish(problem, basis)
        except KeyboardInterrupt:
            self.checkpoint.flush()
            raise

    def _explained(self, problem: Span) -> bool:
        """Whether further starts can be left out: the end is under way, or n is claimed and a slow random start fits."""
        if self.kept.step is not None:
            return self.kept.step.search.stage == "end"
        claimed = self.known_n is not None and problem.moments is None
        return claimed and bool(self.kept.fits) and self.curve.loss[-1] < _EXPLAINED

    def _finish(self, problem: Span, basis: torch.Tensor | None) -> Reconstruction:
        """The best fit with signs and scale, and how sure its rows are."""
        problem.radius = self.radius
        state = noisy.best_of(problem, [problem.state(X) for X in self.kept.fits])
        _, spare = certificate.cliff(problem, state, self.seed)
        exact, resolved, X = self._signed(problem, state)
        last = exact.state(X)
        if resolved:
            at = noisy.settling(X, "end") if self.kept.step is None else self.kept.step.search
            last = noisy.settle(exact, at, self.plan.careful(), self._report(exact))
        rows, scale = network_scale(self.release, last.X if basis is None else last.X @ basis.to(last.X).T)
        costs = tuple(exact.removal_costs(last).tolist())
        proof = certificate.certify(exact, last, costs=costs, spare=spare)
        status, reason = certificate.judge_noisy(proof, noise=noisy.noise_cost(exact, last))
        self.checkpoint.clear()
        return Reconstruction(
            rows=rows.cpu(),
            status=status,
            reason=reason,
            certificate=proof,
            attack=self.name,
            passes=exact.passes,
            seconds=self.clock.seconds,
            curve=self.curve,
            removal_costs=tuple(sorted((*costs, *spare), reverse=True)),
            signs_resolved=resolved,
            scale=scale,
            notes=tuple(self.notes),
        )

    def _signed(self, problem: Span, state: State) -> tuple[Span, bool, torch.Tensor]:
        """The problem without nuisance columns, whether signs are known, and the rows with them."""
        if not isinstance(problem, SpanProblem) or not problem.nuisance:
            return problem, True, state.X  # the sign was in the landscape all along
        resolved, X, note = resolve_signs(problem, state, noisy=True)
        self.notes += [note] if note else []
        exact = problem.without_nuisance()
        exact.passes += problem.passes
        return exact, resolved, X

    def _starts(self, problem: Span, basis: torch.Tensor | None) -> list[int]:
        """Numbers of rows to start from: all where n is claimed, few and growing, and what the learned subspace suggests."""
        visible = max(2, math.ceil(_HEADROOM * search.visible_rows(problem, self.seed)))
        starts = [self.known_n or visible, 2]
        if basis is not None:  # independent samples span as many dimensions as there are of them
            starts += [basis.shape[1], math.ceil(_HEADROOM * basis.shape[1])]
        return list(dict.fromkeys(starts))

    def _fit(self, problem: Span, rows: int, limit: int) -> None:
        """Grow and prune from one number of rows, or go on with it."""
        plan, seed, report, resumed = self.plan, self.seed, self._report(problem), self.kept.step
        at = None if resumed is None else resumed.search
        if at is None or at.stage != "settle":
            problem.radius = self.radius or math.sqrt(self.release.d)
            grown = noisy.grow_to_noise(problem, rows=rows, limit=limit, plan=plan, seed=seed, report=report, resumed=resumed)
            at = noisy.settling(grown.X)
        # From here on lengths are free where they count (biases, layer norms) and are not known.
        problem.radius = self.radius
        state = noisy.prune_to_signal(problem, at, most=self.known_n, plan=plan, report=report)
        self._keep(problem, _Kept((*self.kept.fits, state.X)))

    def _keep(self, problem: Span, kept: _Kept) -> None:
        """Remember what is finished, in the checkpoint too."""
        self.kept = kept
        tensors = {f"fit{i}": X for i, X in enumerate(kept.fits)}
        values: dict[str, Any] = {"passes": problem.passes, "seconds": self.clock.seconds, "curve": asdict(self.curve)}
        if kept.step is not None:
            rows, values["step"] = noisy.pack(kept.step)
            tensors |= rows
        self.checkpoint.save(tensors, values)

    def _resume(self, problem: Span) -> None:
        """What a checkpoint kept, where there is one."""
        resumed = self.checkpoint.load()
        if resumed is None:
            return
        tensors, values = {name: tensor.to(self.device) for name, tensor in resumed[0].items()}, resumed[1]
        step = noisy.unpack(tensors, values["step"], self.device) if "step" in values else None
        self.kept = _Kept(tuple(tensors[name] for name in sorted(tensors) if name.startswith("fit")), step)
        self.clock, problem.passes = Clock(values["seconds"]), values["passes"]
        self.curve = Curve(**{name: tuple(v) for name, v in values["curve"].items()})

    def _report(self, problem: Span) -> noisy.Report:
        def report(step: noisy.Step, state: State) -> None:
            now = step.search
            self.curve = self.curve.extended(loss=state.loss, rows=state.m, passes=problem.passes, seconds=self.clock.seconds)
            eta = estimate_eta(self.curve.loss, self.curve.seconds, precision(problem.dtype).converged)
            self._keep(problem, _Kept(self.kept.fits, step))
            count = len(self.curve.loss)
            X = state.X if self.basis is None else state.X @ self.basis.to(state.X).T
            self.watch(Progress(now.stage, count, state.loss, state.m, problem.passes, self.clock.seconds, eta, X, now.attempt))

        return report
