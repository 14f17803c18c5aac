"""`Unified`: one descent on one objective (objective.py); the published attacks are settings of it (published.py).

`--step-size auto` replaces a published step by Adam with steps of one percent of each unknown's own size, falling to zero
by a cosine: nothing is left to tune.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from exhume.attacks import certificate
from exhume.attacks.base import Clock, Progress, Resources, Watch, check_rows, checkpoint_of, estimate_eta, ignore
from exhume.attacks.network import learned, network_problem
from exhume.attacks.objective import GradientMatch, Level, SpanLoss, Switches, Unknowns, labels_for
from exhume.attacks.scale import network_scale
from exhume.attacks.search import visible_rows
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import Span
from exhume.errors import ExhumeError
from exhume.features import RandomFeatures
from exhume.linalg import streams
from exhume.linalg.precision import precision
from exhume.release import NetworkSpec, Release
from exhume.result import Certificate, Curve, Reconstruction, Status

_REPORT_EVERY = 50
_AUTO_STEP = 0.01


@dataclass(frozen=True)
class Tuning:
    """Constants that authors published for one kind of data."""

    step_size: float
    start: float = 1.0  # spread of the first candidates, in units of the inputs' range
    least_dual: float = 0.0
    sharpness: float = 0.0


@dataclass(frozen=True)
class Unified:
    """One published attack: which objective, which optimiser, which constants."""

    name: str
    about: str
    needs: str  # what the attacker must know
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

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        run = _Run(self, release, seed, watch, resources)
        run.descend()
        return run.finish()

    def constants(self, d: int) -> Tuning:
        """The published constants for inputs of d dimensions."""
        return self.tuning.get(d, self.tuning[0])


class _Run:
    """One descent on one release."""

    def __init__(self, attack: Unified, release: Release, seed: int, watch: Watch, resources: Resources) -> None:
        self.attack, self.release, self.seed, self.watch = attack, release, seed, watch
        self.device, self.dtype = torch.device(resources.device), release.weights.dtype
        self.tuning = attack.constants(release.d)
        self.notes: list[str] = []
        span = self._span(resources.memory)
        n = attack.rows if attack.rows is not None else release.facts.n
        check_rows(n, release)
        if n is None:
            n = max(1, visible_rows(span, seed))
            self.notes.append(f"this attack cannot find n: it ran for the {n} rows that stand out in the weights' second moment")
        self.m = n * attack.per_sample
        labels = labels_for(attack.switches, self.m, release.k, self.device)
        self.objective: SpanLoss | GradientMatch
        if attack.switches.spans:
            self.objective = SpanLoss(span)
        else:
            self.objective = GradientMatch(release, attack.switches, labels=labels, device=self.device)
        self.reach = max(map(abs, release.facts.input_range or (1.0,)))  # size of a large entry of an input
        self.keeper = checkpoint_of(resources, attack, release, seed)
        self.unknowns = self._start()
        self.step, self.curve, self.clock, self.spent = 0, Curve(), Clock(), 0
        self.loss = float("inf")
        self.rates = self._rates()
        self.optimiser = self._optimiser()
        resumed = self.keeper.load()
        if resumed is not None:
            self._restore(*resumed)

    def _span(self, memory: int) -> Span:
        """The bare span problem: no nuisance columns, rows on the sphere of radius sqrt(d), a network's features as trained."""
        release, attack = self.release, self.attack
        if isinstance(release.features, NetworkSpec):
            point = attack.switches.point
            problem = network_problem(release, learned(release), point=point, device=self.device, nuisance=False)
            problem.radius = math.sqrt(release.d)
            return problem
        if not attack.switches.spans:
            raise ExhumeError(
                f"{attack.name} matches all layers of a network, and random features have one. Use --attack gauss-newton."
            )
        features = RandomFeatures(
            release.features, dtype=self.dtype, device=self.device, keep_bytes=memory // 2, alive=release.alive
        )
        return SpanProblem(
            features, release.weights[:, release.alive], radius=math.sqrt(release.d), nuisance=False, leak=attack.leak
        )

    def _start(self) -> Unknowns:
        """The first candidates and duals, as published."""
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

    @property
    def auto(self) -> bool:
        """Whether steps follow from the problem rather than from a publication."""
        return self.attack.step_size == "auto"

    def _rates(self) -> dict[str, float]:
        """Step size of each unknown at the start."""
        if not self.auto:
            size = self.attack.step_size or self.tuning.step_size
            return {"X": float(size), "duals": float(size) if self.attack.optimiser == "adam" else self.attack.dual_step}
        rates = {"X": _AUTO_STEP * self.reach}
        if isinstance(self.objective, GradientMatch) and "duals" in self.unknowns:
            best, first = self.objective.best_duals(self.unknowns["X"], self._level()), self.unknowns["duals"]
            rates["duals"] = _AUTO_STEP * max(_rms(best), _rms(first))
        return rates

    def _optimiser(self) -> torch.optim.Optimizer:
        groups = [{"params": [value], "lr": self.rates[name]} for name, value in self.unknowns.items()]
        if self.auto or self.attack.optimiser == "adam":
            return torch.optim.Adam(groups)
        return torch.optim.SGD(groups, momentum=self.attack.momentum)

    def descend(self) -> None:
        """Steps until the mismatch is below the tolerance or the steps are used up; Ctrl-C keeps the last report."""
        attack = self.attack
        gradient = self._evaluate()
        try:
            while self.step < attack.max_steps and self.loss > attack.tolerance:
                for group, (name, value) in zip(self.optimiser.param_groups, self.unknowns.items(), strict=True):
                    value.grad = gradient[name]
                    if self.auto:
                        group["lr"] = self.rates[name] * (1 + math.cos(math.pi * self.step / attack.max_steps)) / 2
                self.optimiser.step()
                if attack.sphere:
                    X = self.unknowns["X"]
                    X.mul_(math.sqrt(X.shape[1]) / X.norm(dim=1, keepdim=True))
                self.step += 1
                gradient = self._evaluate()
                if self.step % _REPORT_EVERY == 0:
                    self._report()
        except KeyboardInterrupt:
            self.keeper.flush()
            raise
        self._report()

    def _evaluate(self) -> Unknowns:
        self.loss, gradient = self.objective.evaluate(self.unknowns, self._level())
        if not math.isfinite(self.loss):
            raise ExhumeError(f"{self.attack.name} diverged after {self.step} steps. Give --step-size auto or a smaller one.")
        return gradient

    def _level(self) -> Level:
        sharpness = min(10 + 10 ** (self.step / 20_000), 200.0) if self.attack.annealed else self.tuning.sharpness
        return Level(sharpness, self.tuning.least_dual)

    def _report(self) -> None:
        seconds, passes = self.clock.seconds, self.spent + self.objective.passes
        self.curve = self.curve.extended(loss=self.loss, rows=self.m, passes=passes, seconds=seconds)
        left = (self.attack.max_steps - self.step) * seconds / max(1, self.step)
        eta = min(left, estimate_eta(self.curve.loss, self.curve.seconds, self.attack.tolerance) or left)
        self.keeper.save(*self._stored())
        self.watch(Progress("descend", self.step, self.loss, self.m, passes, seconds, eta, self.unknowns["X"]))

    def _stored(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """What a checkpoint keeps: unknowns, the optimiser's memory of each, and where the run stands."""
        tensors = {f"unknown/{name}": value.clone() for name, value in self.unknowns.items()}
        for name, value in self.unknowns.items():
            for key, kept in self.optimiser.state[value].items():
                tensors[f"{key}/{name}"] = torch.as_tensor(kept).clone()
        values = {
            "step": self.step,
            "curve": asdict(self.curve),
            "seconds": self.clock.seconds,
            "passes": self.spent + self.objective.passes,
            "rates": self.rates,
        }
        return tensors, values

    def _restore(self, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
        for name, value in self.unknowns.items():
            value.copy_(tensors[f"unknown/{name}"])
            kept = {key.split("/")[0]: tensor for key, tensor in tensors.items() if key.endswith(f"/{name}")}
            del kept["unknown"]
            self.optimiser.state[value] = {k: t if k == "step" else t.to(value) for k, t in kept.items()}
        self.step, self.clock, self.spent = values["step"], Clock(values["seconds"]), values["passes"]
        self.rates = values["rates"]
        self.curve = Curve(**{name: tuple(v) for name, v in values["curve"].items()})

    def finish(self) -> Reconstruction:
        """Rows at their norms, and how sure they are: proof belongs to the span alone."""
        proof, costs, status, reason = self._judged()
        rows, scale = self.unknowns["X"], "known norm" if self.release.facts.input_norm is not None else "unknown"
        if not self.attack.switches.spans:
            rows, scale = network_scale(self.release, rows)
        self.keeper.clear()
        return Reconstruction(
            rows=rows.cpu(),
            status=status,
            reason=reason,
            certificate=proof,
            attack=self.attack.name,
            passes=self.spent + self.objective.passes,
            seconds=self.clock.seconds,
            curve=self.curve,
            removal_costs=tuple(sorted(costs, reverse=True)),
            scale=scale,
            notes=tuple(self.notes),
        )

    def _judged(self) -> tuple[Certificate, tuple[float, ...], Status, str]:
        ended = f"the mismatch is {self.loss:.1e} after {self.step} steps"
        if isinstance(self.objective, GradientMatch):
            unknowns = sum(value.numel() for value in self.unknowns.values())
            proof = Certificate(self.objective.equations, unknowns, self.loss, precision(self.dtype).certified)
            return proof, (), Status.UNCERTIFIED, f"{ended}; this attack proves nothing about its rows"
        problem, state = self.objective.problem, self.objective.state
        assert state is not None
        costs = tuple(problem.removal_costs(state).tolist())
        proof = certificate.certify(problem, state, costs=costs, spare=())
        status, reason = certificate.judge(proof, converged=self.loss <= self.attack.tolerance)
        if status is Status.STALLED and self.loss <= self.attack.tolerance:
            status = Status.UNCERTIFIED
            reason = f"the loss reached the paper's tolerance of {self.attack.tolerance:g}, which is above the rounding floor"
        return proof, costs, status, reason


def _rms(values: torch.Tensor) -> float:
    return float(values.square().mean().sqrt())
