"""The driver, on a method whose every step is known beforehand: clock, curve, progress, budget, checkpoint, result."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pytest
import torch

from exhume.attacks.interface import Attack, Progress, Resources, Watch, ignore
from exhume.attacks.run import Answer, Clock, Method, StepReport, drive, run_identity, time_to_loss
from exhume.errors import ExhumeError
from exhume.linalg.pass_counter import PassCounter
from exhume.parallel.team import Team
from exhume.release import Release
from exhume.result import Certificate, Curve, Reconstruction, Status
from support.problems import small_sphere, trained

STEPS = 6
PROOF = Certificate(40, 30, 1e-3, 1e-15)


@dataclass(frozen=True)
class Halves:
    """A number that is halved in every step."""

    x: torch.Tensor
    step: int = 0


class Halving(Method[Halves]):
    """Six steps of three passes each; rows grow by one a step."""

    state_type = Halves

    def __init__(self, *, fails_at: int | None = None, error: type[BaseException] = ExhumeError, seconds: float = 0.0) -> None:
        self.passes, self.begun = PassCounter(), 0
        self.fails_at, self.error, self.seconds = fails_at, error, seconds

    def begin(self) -> Halves:
        self.begun += 1
        return Halves(torch.ones(1, dtype=torch.float64))

    def advance(self, state: Halves) -> Halves:
        if state.step + 1 == self.fails_at:
            raise self.error("no further")
        time.sleep(self.seconds)
        self.passes.add(3)
        return Halves(state.x / 2, state.step + 1)

    def done(self, state: Halves) -> bool:
        return state.step >= STEPS

    def report(self, state: Halves) -> StepReport:
        return StepReport("halve", state.step, float(state.x), state.x.expand(state.step + 1, 4), attempt=state.step // 2)

    def time_left(self, state: Halves, curve: Curve) -> float | None:
        return 100.0 * len(curve.loss)

    def finish(self, state: Halves) -> Answer:
        if self.fails_at == STEPS + 1:
            raise self.error("no further")
        self.passes.add(1)
        return Answer(
            state.x.expand(2, 4), Status.UNCERTIFIED, "halved enough", PROOF, (0.1, 0.3, 0.2), True, "fitted", ("a note", "another")
        )


@dataclass(frozen=True)
class Named(Attack):
    """Settings under which a method is driven."""

    name: str = field(default="halving", init=False)
    about: str = field(default="halves", init=False)
    needs: str = field(default="nothing", init=False)
    strength: float = 1.0

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        return drive(Halving(), self, release, seed=seed, watch=watch, resources=resources)


@cache
def some_release() -> Release:
    return trained(small_sphere(d=10, n=3), ratio=4)


def driven(method: Halving, *, watch: Watch = ignore, seed: int = 0, **resources: object) -> Reconstruction:
    return drive(method, Named(), some_release(), seed=seed, watch=watch, resources=Resources(**resources))  # type: ignore[arg-type]


def interrupting(step: int) -> Watch:
    def watch(now: Progress) -> None:
        if now.step == step:
            raise KeyboardInterrupt

    return watch


def test_the_curve_has_every_step() -> None:
    curve = driven(Halving()).curve
    assert curve.loss == tuple(0.5**step for step in range(1, STEPS + 1))
    assert curve.rows == tuple(range(2, STEPS + 2))
    assert curve.passes == tuple(range(3, 3 * STEPS + 1, 3))
    assert all(0 <= a <= b for a, b in itertools.pairwise(curve.seconds))


def test_progress_is_told_after_every_step() -> None:
    seen: list[Progress] = []
    guess = driven(Halving(), watch=seen.append)
    assert [now.step for now in seen] == list(range(1, STEPS + 1))
    assert {now.stage for now in seen} == {"halve"}
    assert [now.attempt for now in seen] == [0, 1, 1, 2, 2, 3]
    assert [now.eta for now in seen] == [100.0 * step for step in range(1, STEPS + 1)]
    for i, now in enumerate(seen):
        assert (now.loss, now.rows, now.passes, now.seconds) == (
            guess.curve.loss[i],
            guess.curve.rows[i],
            guess.curve.passes[i],
            guess.curve.seconds[i],
        )
        assert torch.equal(now.X, torch.full((i + 2, 4), 0.5 ** (i + 1), dtype=torch.float64))


def test_the_answer_becomes_the_reconstruction() -> None:
    guess = driven(Halving())
    assert torch.equal(guess.rows, torch.full((2, 4), 0.5**STEPS, dtype=torch.float64))
    assert (guess.status, guess.reason, guess.certificate) == (Status.UNCERTIFIED, "halved enough", PROOF)
    assert (guess.attack, guess.signs_resolved, guess.scale) == ("halving", True, "fitted")
    assert guess.notes == ("a note", "another")
    assert guess.removal_costs == (0.3, 0.2, 0.1)  # descending: the cliff is n
    assert guess.passes == 3 * STEPS + 1  # those of the end count too
    assert guess.seconds >= guess.curve.seconds[-1]


class _AtTheGoal(Halving):
    def done(self, state: Halves) -> bool:
        return True


def test_a_method_that_has_nothing_to_do_gives_its_answer_at_once() -> None:
    guess = driven(_AtTheGoal())
    assert guess.curve == Curve()
    assert torch.equal(guess.rows, torch.ones(2, 4, dtype=torch.float64))


@pytest.mark.parametrize(("most", "steps"), [(0, 1), (2, 1), (3, 2), (8, 3), (3 * STEPS - 1, STEPS)])
def test_when_its_passes_are_spent_a_run_ends_with_the_rows_in_hand(most: int, steps: int) -> None:
    guess = driven(Halving(), most_passes=most)
    assert torch.equal(guess.rows, torch.full((steps + 1, 4), 0.5**steps, dtype=torch.float64))
    assert guess.status is Status.STALLED
    assert guess.reason == f"stopped after {most} passes, before it had ended"
    assert (guess.passes, len(guess.curve.loss)) == (3 * steps, steps)
    assert guess.certificate.margin == 0


def test_passes_that_suffice_change_nothing() -> None:
    assert driven(Halving(), most_passes=3 * STEPS).reason == "halved enough"


def test_a_clock_counts_on() -> None:
    clock = Clock(5.0)
    first = clock.seconds
    time.sleep(0.01)
    assert 5.0 <= first < 6.0
    assert 0.01 <= clock.seconds - first < 1.0


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.ckpt"
    with pytest.raises(KeyboardInterrupt):
        driven(Halving(), watch=interrupting(4), checkpoint=checkpoint)
    seen: list[Progress] = []
    second = Halving()
    guess = driven(second, watch=seen.append, checkpoint=checkpoint)
    assert [now.step for now in seen] == [5, 6]  # the step that was being told when Ctrl-C came is kept
    assert second.begun == 0
    whole = driven(Halving())
    assert torch.equal(guess.rows, whole.rows)
    assert (guess.curve.loss, guess.curve.rows, guess.curve.passes) == (whole.curve.loss, whole.curve.rows, whole.curve.passes)
    assert guess.passes == whole.passes
    assert not checkpoint.exists()


def test_seconds_are_counted_on_across_a_resume_and_pauses_are_not(tmp_path: Path) -> None:
    checkpoint, step = tmp_path / "run.ckpt", 0.02
    with pytest.raises(KeyboardInterrupt):
        driven(Halving(seconds=step), watch=interrupting(3), checkpoint=checkpoint)
    time.sleep(0.3)
    began = time.perf_counter()
    guess = driven(Halving(seconds=step), checkpoint=checkpoint)
    second = time.perf_counter() - began
    seconds = guess.curve.seconds
    assert all(b - a >= step for a, b in itertools.pairwise((0.0, *seconds)))  # every step counts once
    assert guess.seconds <= seconds[2] + second  # those before the pause and those after it


@pytest.mark.parametrize("error", [ExhumeError, KeyboardInterrupt, RuntimeError, MemoryError, ArithmeticError])
@pytest.mark.parametrize("fails_at", [5, STEPS + 1])  # in a step, and in the end
def test_whatever_interrupts_a_run_its_last_finished_step_is_kept(
    error: type[BaseException], fails_at: int, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "run.ckpt"
    with pytest.raises(error, match="no further"):
        driven(Halving(fails_at=fails_at, error=error), checkpoint=checkpoint)
    seen: list[Progress] = []
    guess = driven(Halving(), watch=seen.append, checkpoint=checkpoint)
    assert [now.step for now in seen] == list(range(fails_at, STEPS + 1))
    assert torch.equal(guess.rows, driven(Halving()).rows)


def test_a_run_whose_passes_are_spent_can_go_on_with_more(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.ckpt"
    driven(Halving(), checkpoint=checkpoint, most_passes=10)
    seen: list[Progress] = []
    guess = driven(Halving(), watch=seen.append, checkpoint=checkpoint)
    assert [now.step for now in seen] == [5, 6]
    assert guess.reason == "halved enough"


def test_of_a_team_the_first_process_alone_writes(tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.ckpt"
    with pytest.raises(KeyboardInterrupt):
        driven(Halving(), watch=interrupting(2), checkpoint=checkpoint, team=Team(1, 2))
    assert not checkpoint.exists()


@pytest.mark.parametrize(
    "other",
    [
        lambda attack, release, seed: (replace(attack, strength=2.0), release, seed),
        lambda attack, release, seed: (attack, release, seed + 1),
        lambda attack, release, seed: (attack, replace(release, weights=release.weights.roll(1, 1)), seed),
        lambda attack, release, seed: (attack, replace(release, facts=replace(release.facts, n=3)), seed),
        lambda attack, release, seed: (attack, replace(release, model=replace(release.model, seed=5)), seed),
        lambda attack, release, seed: (_Other(), release, seed),
    ],
    ids=["settings", "seed", "weights", "facts", "model", "attack"],
)
def test_runs_that_differ_have_other_identities(other: Callable[..., tuple[Attack, Release, int]], tmp_path: Path) -> None:
    same = run_identity(Named(), some_release(), 0)
    assert run_identity(Named(), some_release(), 0) == same
    attack, release, seed = other(Named(), some_release(), 0)
    assert run_identity(attack, release, seed) != same
    checkpoint = tmp_path / "run.ckpt"
    with pytest.raises(KeyboardInterrupt):
        driven(Halving(), watch=interrupting(2), checkpoint=checkpoint)
    with pytest.raises(ExhumeError, match="belongs to another run"):
        drive(Halving(), attack, release, seed=seed, watch=ignore, resources=Resources(checkpoint=checkpoint))


@dataclass(frozen=True)
class _Other(Named):
    name: str = field(default="doubling", init=False)


def curve_of(losses: list[float], seconds: list[float]) -> Curve:
    return Curve(tuple(losses), (1,) * len(losses), (1,) * len(losses), tuple(seconds))


def tenfold(steps: int, per_second: float, start: float = 1.0) -> Curve:
    """A loss that falls tenfold a step."""
    return curve_of([start * 10.0**-i for i in range(steps)], [i / per_second for i in range(steps)])


@pytest.mark.parametrize(
    ("curve", "target", "left"),
    [
        (tenfold(5, 1.0), 1e-10, 6.0),  # at 1e-4 now, six orders of magnitude to go, one a second
        (tenfold(5, 4.0), 1e-10, 1.5),
        (tenfold(3, 1.0), 1e-3, 1.0),
        (tenfold(5, 1.0), 1e-4, 0.0),
        (tenfold(5, 1.0), 1.0, 0.0),  # below it already
        (tenfold(2, 1.0), 1e-10, None),  # too early to tell
        (curve_of([1.0, 1.0, 1.0], [0.0, 1.0, 2.0]), 1e-10, None),  # no gain
        (curve_of([1.0, 0.5, 2.0], [0.0, 1.0, 2.0]), 1e-10, None),
        (curve_of([1.0, 0.5, 0.0], [0.0, 1.0, 2.0]), 1e-10, None),  # nothing left to lose
        (curve_of([1.0, 0.5, 0.2], [1.0, 1.0, 1.0]), 1e-10, None),  # no time has passed
        (tenfold(5, 1.0), 0.0, None),  # a target that is never reached
        (Curve(), 1e-10, None),
    ],
)
def test_the_time_left_follows_from_the_pace_of_the_loss(curve: Curve, target: float, left: float | None) -> None:
    found = time_to_loss(curve, target)
    assert found is None if left is None else found == pytest.approx(left, abs=1e-9)


def test_only_the_last_steps_set_the_pace() -> None:
    slow = [1.0] * 30
    fast = [math.exp(-i) for i in range(1, 21)]
    curve = curve_of(slow + fast, [float(i) for i in range(50)])
    assert time_to_loss(curve, math.exp(-25)) == pytest.approx(5.0)
