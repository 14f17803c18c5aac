"""`projection-gd`: the paper's attack to the letter of Appendix D, momentum descent on ||P_perp theta||^2 / ||theta||^2."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from exhume.attacks import certificate
from exhume.attacks.base import Checkpoint, Clock, Progress, Resources, Watch, check_rows, estimate_eta, ignore
from exhume.attacks.network import learned, network_problem
from exhume.attacks.search import visible_rows
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import Span, State
from exhume.features import RandomFeatures
from exhume.linalg import streams
from exhume.release import NetworkSpec, Release
from exhume.result import Curve, Reconstruction, Status

# Appendix D: 20 for synthetic data, 2e3 for CIFAR-10 (d = 3072), 8e3 for Tiny-ImageNet (d = 12288).
_SYNTHETIC_STEP = 20.0
STEP_SIZES = {3072: 2e3, 12288: 8e3}
_REPORT_EVERY = 50


@dataclass(frozen=True)
class ProjectionGD:
    """Settings of Appendix D; `step_size` None picks the paper's value for the input dimension."""

    step_size: float | None = None
    momentum: float = 0.9
    tolerance: float = 1e-7
    max_steps: int = 20_000
    rows: int | None = None  # the paper's n-hat
    leak: float = 0.0  # the published code, not the text, lets 0.02 of the gradient through where ReLU is off

    @property
    def name(self) -> str:
        """The registered name."""
        return "projection-gd"

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        dtype, device = release.weights.dtype, torch.device(resources.device)
        problem = self._problem(release, device, resources.memory)
        notes: tuple[str, ...] = ()
        n = self.rows if self.rows is not None else release.facts.n
        check_rows(n, release)
        if n is None:
            n = max(1, visible_rows(problem, seed))
            notes = (f"this attack cannot find n: it ran with the {n} rows that stand out in the weights' second moment",)
        keeper = Checkpoint(resources.checkpoint, self, release, seed)
        start = streams.random_directions(n, release.d, seed=seed, purpose="candidates").to(device, dtype)
        course = _Course(problem.on_sphere(start), torch.zeros_like(start))
        resumed = keeper.load()
        if resumed is not None:
            course = _Course.restored(*resumed, like=start)
            problem.passes = resumed[1]["passes"]
        state, course = self._descend(problem, course, keeper, watch)
        costs = tuple(problem.removal_costs(state).tolist())
        proof = certificate.certify(problem, state, costs=costs, spare=())
        status, reason = certificate.judge(proof, converged=state.loss <= self.tolerance)
        if status is Status.STALLED and state.loss <= self.tolerance:
            status = Status.UNCERTIFIED
            reason = f"the loss reached the paper's tolerance of {self.tolerance:g}, which is above the rounding floor"
        keeper.clear()
        return Reconstruction(
            rows=state.X.cpu(),
            status=status,
            reason=reason,
            certificate=proof,
            attack=self.name,
            passes=problem.passes,
            seconds=course.clock.seconds,
            curve=course.curve,
            removal_costs=tuple(sorted(costs, reverse=True)),
            scale="known norm" if release.facts.input_norm is not None else "unknown",
            notes=notes,
        )

    def _problem(self, release: Release, device: torch.device, memory: int) -> Span:
        """The bare span problem: no nuisance columns, rows on the sphere of radius sqrt(d), a network's features as trained."""
        if isinstance(release.features, NetworkSpec):
            problem = network_problem(release, learned(release), point="trained", device=device, nuisance=False)
            problem.radius = math.sqrt(release.d)
            return problem
        features = RandomFeatures(release.features, dtype=release.weights.dtype, device=device, keep_bytes=memory // 2)
        return SpanProblem(features, release.weights, radius=math.sqrt(release.d), nuisance=False, leak=self.leak)

    def _descend(self, problem: Span, course: _Course, keeper: Checkpoint, watch: Watch) -> tuple[State, _Course]:
        """x <- sphere(x - eta v), v <- 0.9 v + gradient, until the normalised loss is below the tolerance."""
        step_size = self.step_size or paper_step_size(problem.d)
        state = problem.state(course.X)
        try:
            while course.step < self.max_steps and state.loss > self.tolerance:
                velocity = self.momentum * course.velocity - (2 / problem.energy) * state.gradient
                state = problem.state(problem.on_sphere(state.X - step_size * velocity))
                course = replace(course, X=state.X, velocity=velocity, step=course.step + 1)
                if course.step % _REPORT_EVERY == 0:
                    course = self._report(problem, state, course, watch)
                    keeper.save(*course.stored(problem.passes))
        except KeyboardInterrupt:
            keeper.save(*course.stored(problem.passes), now=True)
            raise
        return state, self._report(problem, state, course, watch)

    def _report(self, problem: Span, state: State, course: _Course, watch: Watch) -> _Course:
        seconds = course.clock.seconds
        curve = course.curve.extended(loss=state.loss, rows=state.m, passes=problem.passes, seconds=seconds)
        left = (self.max_steps - course.step) * seconds / max(1, course.step)
        eta = min(left, estimate_eta(curve.loss, curve.seconds, self.tolerance) or left)
        watch(Progress("descend", course.step, state.loss, state.m, problem.passes, seconds, eta, state.X))
        return replace(course, curve=curve)


@dataclass(frozen=True)
class _Course:
    """One step of the descent."""

    X: torch.Tensor
    velocity: torch.Tensor
    step: int = 0
    curve: Curve = field(default_factory=Curve)
    clock: Clock = field(default_factory=Clock)

    def stored(self, passes: int) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """What a checkpoint keeps."""
        values = {"step": self.step, "curve": asdict(self.curve), "seconds": self.clock.seconds, "passes": passes}
        return {"X": self.X, "velocity": self.velocity}, values

    @staticmethod
    def restored(tensors: dict[str, torch.Tensor], values: dict[str, Any], *, like: torch.Tensor) -> _Course:
        """The step that a checkpoint kept."""
        curve = Curve(**{name: tuple(v) for name, v in values["curve"].items()})
        X, velocity = tensors["X"].to(like), tensors["velocity"].to(like)
        return _Course(X, velocity, values["step"], curve, Clock(values["seconds"]))


def paper_step_size(d: int) -> float:
    """Appendix D's step size for data of that dimension."""
    return STEP_SIZES.get(d, _SYNTHETIC_STEP)
