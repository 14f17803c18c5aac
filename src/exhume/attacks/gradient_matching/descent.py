"""One descent on one objective (objective.py); the published attacks are settings of it (published.py).

`--step-size auto` replaces a published step by Adam with steps of one percent of each unknown's own size, falling to zero
by a cosine: nothing is left to tune.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from exhume.attacks.gradient_matching.objective import GradientMatch, Level, SpanLoss, Switches, Unknowns, labels_for
from exhume.attacks.interface import Attack, Proposal, Resources, Watch, claimed_rows, ignore
from exhume.attacks.proof import certificate
from exhume.attacks.proof.norms import norms_of_network
from exhume.attacks.run import Answer, Method, StepReport, drive, time_to_loss
from exhume.attacks.search.growth import visible_rows
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point, Span
from exhume.attacks.span.trained_network import learned, network_problem
from exhume.errors import ExhumeError
from exhume.features import FeatureMemory
from exhume.linalg import streams
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.precision import precision
from exhume.release import Release
from exhume.result import Certificate, Curve, Reconstruction, Status
from exhume.storage.records import not_stored

# Steps of the descent between two reports.
_REPORT_EVERY = 50
# An automatic step, relative to the size of the unknown.
_AUTO_STEP = 0.01


@dataclass(frozen=True)
class Tuning:
    """Constants that authors published for one kind of data."""

    step_size: float
    start: float = 1.0  # spread of the first candidates, in units of the inputs' range
    least_dual: float = 0.0
    sharpness: float = 0.0  # of the smoothed ReLU


@dataclass(frozen=True)
class GradientMatching(Attack):
    """One published attack: which objective, which optimiser, which constants."""

    name: str
    about: str
    needs: str  # what the attacker must know
    left_out: str  # why an audit leaves it out
    switches: Switches
    tuning: Mapping[int, Tuning]  # by input dimension; 0 stands for every other
    optimiser: str = "momentum"  # or "adam"
    momentum: float = 0.9
    dual_step: float = 1e-4
    annealed: bool = False  # the sharpness min(10 + 10^(step / 20000), 200) instead of a constant
    sphere: bool = False  # rows are kept at norm sqrt(d)
    per_sample: int = 1  # candidates for each sample
    tolerance: float = 0.0
    max_steps: int = 50_000
    step_size: float | str | None = None  # None: the published one; "auto"
    rows: int | None = None  # n, as somebody claims to know it
    leak: float = 0.0  # the slope that stands in for a flat ReLU in random features

    def refusal(self, release: Release) -> str | None:
        """All layers must be there where all are matched, and the outputs must be of the kind that F takes."""
        if not self.switches.spans and not release.trained:
            return f"{self.name} matches all layers of a network, and random features have one. Use --attack gauss-newton."
        if self.switches.outputs == "signed" and release.k != 1:
            return f"{self.name} takes a binary network with one output, got {release.k}. Use --attack kkt-multiclass."
        if self.switches.outputs == "margin" and release.k < 2:
            return f"{self.name} takes a network with one output per class, got 1. Use --attack kkt."
        return None

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        """Never run by an audit."""
        return (Proposal(self, None, self.left_out),)

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        self.check(release)
        descent = Descent(self, release, resources, seed=seed)
        return drive(descent, self, release, seed=seed, watch=watch, resources=resources)

    def constants(self, d: int) -> Tuning:
        """The published constants for inputs of d dimensions."""
        return self.tuning.get(d, self.tuning[0])


@dataclass(frozen=True)
class DescentState:
    """The unknowns after some steps, and what the optimiser remembers of each."""

    unknowns: dict[str, torch.Tensor]  # "X" (m, d) and, where duals are free, "duals" (m, c)
    memory: dict[str, dict[str, torch.Tensor]]
    rates: dict[str, float]  # step size of each unknown at the start
    step: int = 0
    loss: float = math.inf
    gradient: Unknowns | None = not_stored()


class Descent(Method[DescentState]):
    """One descent on one release."""

    state_type = DescentState

    def __init__(self, attack: GradientMatching, release: Release, resources: Resources, *, seed: int) -> None:
        self.attack, self.release, self.seed = attack, release, seed
        self.device, self.dtype = torch.device(resources.device), release.weights.dtype
        self.tuning, self.passes = attack.constants(release.d), PassCounter()
        self.span = self._span(resources.memory)
        claimed = claimed_rows(attack.rows, release)
        self.notes: tuple[str, ...] = ()
        if claimed is None:
            claimed = max(1, visible_rows(self.span, seed))
            self.notes = (f"this attack cannot find n: it ran for the {claimed} rows that stand out in the weights' second moment",)
        self.m = claimed * attack.per_sample
        self.match: GradientMatch | None = None  # None: the first paper's loss, which the span problem computes
        if not attack.switches.spans:
            labels = labels_for(attack.switches, self.m, release.k, self.device)
            self.match = GradientMatch(release, attack.switches, labels=labels, device=self.device, passes=self.passes)
        self.reach = max(map(abs, release.facts.input_range or (1.0,)))  # size of a large entry of an input

    def _span(self, memory: int) -> Span:
        """The bare span problem: no nuisance columns, rows on the sphere of radius sqrt(d), a network's features as trained."""
        release, radius = self.release, math.sqrt(self.release.d)
        if release.trained:
            point = self.attack.switches.point
            problem = network_problem(
                release, learned(release), point=point, device=self.device, nuisance=False, passes=self.passes
            )
            return problem.with_radius(radius)
        features = release.fixed_features(FeatureMemory(self.device, memory // 2))
        weights = release.weights[:, release.alive]
        return BlockwiseSpan(features, weights, radius=radius, nuisance=False, leak=self.attack.leak, passes=self.passes)

    @property
    def auto(self) -> bool:
        """Whether steps follow from the problem rather than from a publication."""
        return self.attack.step_size == "auto"

    def begin(self) -> DescentState:
        """The first candidates and duals, as published."""
        unknowns = self._first_unknowns()
        state = DescentState(unknowns, {name: {} for name in unknowns}, self._rates(unknowns))
        loss, gradient = self._evaluate(state.unknowns, 0)
        return replace(state, loss=loss, gradient=gradient)

    def _first_unknowns(self) -> Unknowns:
        attack, d = self.attack, self.release.d
        if attack.sphere:
            rows = streams.random_directions(self.m, d, seed=self.seed, purpose="candidates") * math.sqrt(d)
            return {"X": rows.to(self.device, self.dtype)}
        draw = streams.generator(self.seed, "candidates")
        X = self.tuning.start * self.reach * torch.randn(self.m, d, generator=draw, dtype=torch.float64)
        count = self.release.k if attack.switches.outputs == "each" else 1
        duals = torch.rand(self.m, count, generator=draw, dtype=torch.float64)
        if not attack.switches.dual_floor:  # signs are open too
            duals = duals - 0.5
        start = {"X": X} | ({"duals": duals} if attack.switches.duals == "free" else {})
        return {name: value.to(self.device, self.dtype) for name, value in start.items()}

    def _rates(self, unknowns: Unknowns) -> dict[str, float]:
        """Step size of each unknown at the start."""
        if not self.auto:
            size = float(self.attack.step_size or self.tuning.step_size)
            return {"X": size, "duals": size if self.attack.optimiser == "adam" else self.attack.dual_step}
        rates = {"X": _AUTO_STEP * self.reach}
        if self.match is not None and "duals" in unknowns:
            best = self.match.best_duals(unknowns["X"], self._level(0))
            rates["duals"] = _AUTO_STEP * max(_rms(best), _rms(unknowns["duals"]))
        return rates

    def advance(self, state: DescentState) -> DescentState:
        """Some steps of the descent, up to the next report."""
        unknowns = {name: value.clone() for name, value in state.unknowns.items()}
        optimiser = self._optimiser(unknowns, state)
        step, loss, gradient = state.step, state.loss, state.gradient
        if gradient is None:
            loss, gradient = self._evaluate(unknowns, step)
        for _ in range(_REPORT_EVERY - step % _REPORT_EVERY):
            if self._over(step, loss):
                break
            for group, (name, value) in zip(optimiser.param_groups, unknowns.items(), strict=True):
                value.grad = gradient[name]
                if self.auto:
                    group["lr"] = state.rates[name] * (1 + math.cos(math.pi * step / self.attack.max_steps)) / 2
            optimiser.step()
            if self.attack.sphere:
                X = unknowns["X"]
                X.mul_(math.sqrt(X.shape[1]) / X.norm(dim=1, keepdim=True))
            step += 1
            loss, gradient = self._evaluate(unknowns, step)
        memory = {
            name: {key: torch.as_tensor(kept).clone() for key, kept in optimiser.state[value].items()}
            for name, value in unknowns.items()
        }
        plain = {name: value.detach() for name, value in unknowns.items()}
        return DescentState(plain, memory, state.rates, step, loss, gradient)

    def _optimiser(self, unknowns: Unknowns, state: DescentState) -> torch.optim.Optimizer:
        groups = [{"params": [value], "lr": state.rates[name]} for name, value in unknowns.items()]
        optimiser: torch.optim.Optimizer
        if self.auto or self.attack.optimiser == "adam":
            optimiser = torch.optim.Adam(groups)
        else:
            optimiser = torch.optim.SGD(groups, momentum=self.attack.momentum)
        for name, value in unknowns.items():
            if state.memory[name]:  # Adam counts its steps on the CPU
                optimiser.state[value] = {
                    key: kept.cpu().clone() if key == "step" else kept.clone() for key, kept in state.memory[name].items()
                }
        return optimiser

    def _evaluate(self, unknowns: Unknowns, step: int) -> tuple[float, Unknowns]:
        objective = SpanLoss(self.span) if self.match is None else self.match
        loss, gradient = objective.evaluate(unknowns, self._level(step))
        if not math.isfinite(loss):
            raise ExhumeError(f"{self.attack.name} diverged after {step} steps. Give --step-size auto or a smaller one.")
        return loss, gradient

    def _level(self, step: int) -> Level:
        sharpness = min(10 + 10 ** (step / 20_000), 200.0) if self.attack.annealed else self.tuning.sharpness
        return Level(sharpness, self.tuning.least_dual)

    def _over(self, step: int, loss: float) -> bool:
        return step >= self.attack.max_steps or loss <= self.attack.tolerance

    def done(self, state: DescentState) -> bool:
        """Whether the mismatch is below the tolerance or the steps are used up."""
        return self._over(state.step, state.loss)

    def report(self, state: DescentState) -> StepReport:
        """The candidates."""
        return StepReport("descend", state.step, state.loss, state.unknowns["X"])

    def time_left(self, state: DescentState, curve: Curve) -> float | None:
        """Until the steps are used up, or the mismatch is below the tolerance."""
        left = (self.attack.max_steps - state.step) * curve.seconds[-1] / max(1, state.step)
        return min(left, time_to_loss(curve, self.attack.tolerance) or left)

    def finish(self, state: DescentState) -> Answer:
        """Rows at their norms, and how sure they are: proof belongs to the span alone."""
        rows = state.unknowns["X"]
        if self.match is None:
            return self._answer_of_span(state, rows)
        unknowns = sum(value.numel() for value in state.unknowns.values())
        proof = Certificate(self.match.equations, unknowns, state.loss, precision(self.dtype).certified)
        reason = f"the mismatch is {state.loss:.1e} after {state.step} steps; this attack proves nothing about its rows"
        rows, scale = norms_of_network(self.release, rows)
        return Answer(rows, Status.UNCERTIFIED, reason, proof, scale=scale, notes=self.notes)

    def _answer_of_span(self, state: DescentState, rows: torch.Tensor) -> Answer:
        at, tolerance = self.span.state(Point(rows)), self.attack.tolerance
        costs = tuple(self.span.removal_costs(at).tolist())
        proof = certificate.certify(self.span, at, costs=costs, spare=())
        reached = state.loss <= tolerance
        status, reason = certificate.judge(proof, converged=reached)
        if status is Status.STALLED and reached:
            status = Status.UNCERTIFIED
            reason = f"the loss reached the paper's tolerance of {tolerance:g}, which is above the rounding floor"
        scale = "known norm" if self.release.facts.input_norm is not None else "unknown"
        return Answer(rows, status, reason, proof, costs, scale=scale, notes=self.notes)


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())
