"""One driver for every method: clock, curve, progress, time left, checkpoint, result."""

from __future__ import annotations

import hashlib
import json
import math
import time
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

import torch

from exhume.attacks.interface import Attack, Progress, Resources, Watch
from exhume.linalg.pass_counter import PassCounter
from exhume.release import Release
from exhume.result import Certificate, Curve, Reconstruction, Status
from exhume.storage.checkpoint import Checkpoint

# Steps over which the pace of the loss is measured.
_ETA_WINDOW = 20

State = TypeVar("State")


@dataclass(frozen=True)
class StepReport:
    """What a method tells of the state that it is in."""

    stage: str
    step: int
    loss: float
    X: torch.Tensor  # (m, d)
    attempt: int = 0


@dataclass(frozen=True)
class Answer:
    """What a method has found in the end."""

    rows: torch.Tensor  # (m, d)
    status: Status
    reason: str
    certificate: Certificate
    removal_costs: tuple[float, ...] = ()  # of the rows and of spare ones added on top
    signs_resolved: bool = False
    scale: str = "unknown"
    notes: tuple[str, ...] = ()


class Method(ABC, Generic[State]):
    """One attack on one release, as the driver sees it: states that can be stored, one after another, and an answer."""

    state_type: type[State]
    passes: PassCounter

    @abstractmethod
    def begin(self) -> State:
        """The first state."""

    @abstractmethod
    def advance(self, state: State) -> State:
        """The state after one outer step."""

    @abstractmethod
    def done(self, state: State) -> bool:
        """Whether there is nothing more to do."""

    @abstractmethod
    def report(self, state: State) -> StepReport:
        """What a person may want to see of a state."""

    @abstractmethod
    def finish(self, state: State) -> Answer:
        """Rows with all that can be said of them."""

    @abstractmethod
    def time_left(self, state: State, curve: Curve) -> float | None:
        """Seconds until the end, as far as that can be told."""


@dataclass(frozen=True)
class _Course:
    """What a run has cost and how it went, up to a step."""

    curve: Curve = field(default_factory=Curve)
    seconds: float = 0.0
    passes: int = 0


class Clock:
    """Seconds of work, counted on across a resume."""

    def __init__(self, already: float = 0.0) -> None:
        self._origin = time.perf_counter() - already

    @property
    def seconds(self) -> float:
        """Seconds since the run began, pauses excluded."""
        return time.perf_counter() - self._origin


def drive(
    method: Method[State], attack: Attack, release: Release, *, seed: int, watch: Watch, resources: Resources
) -> Reconstruction:
    """Run or resume a method to its end; whatever interrupts it, the last finished step is kept."""
    checkpoint = Checkpoint(resources.checkpoint_file, run_identity(attack, release, seed), writes=resources.team.rank == 0)
    clock = Clock()
    resumed = checkpoint.load({"state": method.state_type, "course": _Course}, resources.device)
    course = _Course() if resumed is None else resumed["course"]
    if resumed is not None:
        clock = Clock(course.seconds)
        method.passes.add(course.passes)
    try:
        state: State = method.begin() if resumed is None else resumed["state"]
        while not method.done(state):
            state = method.advance(state)
            step, passes, seconds = method.report(state), method.passes.total, clock.seconds
            curve = course.curve.extended(loss=step.loss, rows=len(step.X), passes=passes, seconds=seconds)
            course = _Course(curve, seconds, passes)
            checkpoint.save({"state": state, "course": course})
            left = method.time_left(state, curve)
            watch(Progress(step.stage, step.step, step.loss, len(step.X), passes, seconds, left, step.X, step.attempt))
            if resources.most_passes is not None and course.passes > resources.most_passes:
                checkpoint.flush()
                return _stopped(step, attack, course, resources.most_passes)
        # The method must be able to let go of the last state, which holds all features of the rows.
        last = [state]
        del state
        answer = method.finish(last.pop())
    except BaseException:  # also where memory ran out: the same command may go on elsewhere
        checkpoint.flush()
        raise
    checkpoint.clear()
    return Reconstruction(
        rows=answer.rows.cpu(),
        status=answer.status,
        reason=answer.reason,
        certificate=answer.certificate,
        attack=attack.name,
        passes=method.passes.total,
        seconds=clock.seconds,
        curve=course.curve,
        removal_costs=tuple(sorted(answer.removal_costs, reverse=True)),
        signs_resolved=answer.signs_resolved,
        scale=answer.scale,
        notes=answer.notes,
    )


def _stopped(step: StepReport, attack: Attack, course: _Course, most: int) -> Reconstruction:
    """The rows in hand where the work is spent."""
    return Reconstruction(
        rows=step.X.detach().cpu(),
        status=Status.STALLED,
        reason=f"stopped after {most} passes, before it had ended",
        certificate=Certificate(0, 0, 1.0, 0.0),
        attack=attack.name,
        passes=course.passes,
        seconds=course.seconds,
        curve=course.curve,
    )


def time_to_loss(curve: Curve, target: float) -> float | None:
    """Seconds until the loss reaches `target` at the pace of the last steps, in orders of magnitude per second."""
    losses, seconds = curve.loss, curve.seconds
    if len(losses) < 3 or min(losses) <= 0 or target <= 0:
        return None
    back = min(_ETA_WINDOW, len(losses) - 1)
    gained = math.log(losses[-1 - back] / losses[-1])
    spent = seconds[-1] - seconds[-1 - back]
    if gained <= 1e-3 or spent <= 0:
        return None
    return max(0.0, math.log(losses[-1] / target)) * spent / gained


def run_identity(attack: Attack, release: Release, seed: int) -> dict[str, Any]:
    """What tells one run from another: same release, same attack, same seed."""
    digest = hashlib.sha256(release.weights.cpu().contiguous().numpy().tobytes()).hexdigest()
    recipe = [] if release.recipe is None else [asdict(release.recipe)]
    facts = json.dumps([release.model.header(), asdict(release.facts), *recipe], sort_keys=True)
    return {"attack": attack.name, "settings": asdict(attack), "seed": seed, "weights": digest, "facts": facts}  # type: ignore[call-overload]
