"""The mitigation ladder: each step applied or re-trained for real, attacked again, and weighed against what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from exhume.attacks import Resources, Watch, ignore
from exhume.auditing.attack_order import choose
from exhume.auditing.audit_inputs import AuditInputs, subject_of
from exhume.auditing.mitigation.steps import Skipped, Step, steps_for
from exhume.auditing.nearness import beyond_chance, near, references, views
from exhume.auditing.preflight import training_error
from exhume.auditing.run import Audit
from exhume.auditing.subject import Subject
from exhume.data import Dataset
from exhume.knowledge import Knowledge
from exhume.result import Reconstruction

# An attack on a mitigated model gets this many times the work that the open one took, ...
_PATIENCE = 2.0
# ... which counts as this many passes at least.
_LEAST_PASSES = 1000


@dataclass(frozen=True)
class Rung:
    """One step of the ladder, measured."""

    step: str
    setting: str
    how: str  # "as it is", "applied" or "re-trained"
    rebuilt: int
    n: int
    certified: bool
    train_error: float
    held_out_error: float | None
    seconds: float

    @property
    def leakage(self) -> float:
        """Share of samples that were rebuilt."""
        return self.rebuilt / self.n


@dataclass(frozen=True)
class Ladder:
    """All rungs, the open model first; `cheapest` is the first that stops the attack at the least loss of utility."""

    rungs: tuple[Rung, ...]
    skipped: tuple[tuple[str, str], ...]  # step, reason
    bearable: float  # leakage that counts as stopped

    @property
    def cheapest(self) -> Rung | None:
        """The rung that stops the attack with the smallest held-out (else training) error."""
        stopped = [rung for rung in self.rungs[1:] if rung.leakage <= self.bearable]
        return min(stopped, key=cost, default=None)

    def row(self) -> dict[str, Any]:
        """The ladder as one JSON object."""
        best = self.cheapest
        return {
            "rungs": [asdict(rung) | {"leakage": rung.leakage} for rung in self.rungs],
            "skipped": [{"step": step, "why": why} for step, why in self.skipped],
            "cheapest": None if best is None else f"{best.step}, {best.setting}",
        }


def cost(rung: Rung) -> float:
    """What a rung is weighed by: the held-out error, or the training error where nothing was held out."""
    return rung.held_out_error if rung.held_out_error is not None else rung.train_error


def run_mitigations(
    inputs: AuditInputs,
    knowledge: Knowledge,
    first: Audit,
    *,
    bearable: float = 0.0,
    seed: int = 0,
    watch: Watch = ignore,
    finished: Callable[[Rung], None] = lambda rung: None,
    resources: Resources = Resources(),
) -> Ladder:
    """Every step that fits the model, measured as the open model was (`first`)."""
    rungs = [_open_rung(first)]
    finished(rungs[0])
    skipped: list[tuple[str, str]] = []
    bounded = replace(resources, checkpoint=None, most_passes=int(_PATIENCE * max(first.guess.passes, _LEAST_PASSES)))
    for step in steps_for(inputs, knowledge, first.subject, seed):
        if isinstance(step, Skipped):
            skipped.append((step.step, step.why))
            continue
        try:
            changed, known = step.make()
            rung = _measure(step, changed, known, within=first.within, seed=seed, watch=watch, resources=bounded)
        except Exception as error:  # a step that fails on somebody's model must not lose those that were measured
            skipped.append((f"{step.step}, {step.setting}", (str(error) or type(error).__name__).splitlines()[0]))
            continue
        rungs.append(rung)
        finished(rung)
    return Ladder(tuple(rungs), tuple(skipped), bearable)


def _open_rung(first: Audit) -> Rung:
    """The model as it is."""
    verdict = first.verdict
    return Rung(
        step="as it is",
        setting="",
        how="as it is",
        rebuilt=verdict.rebuilt,
        n=verdict.n,
        certified=verdict.certified,
        train_error=first.law.train_error,
        held_out_error=first.utility.get("held_out_error"),
        seconds=first.guess.seconds,
    )


def _measure(
    step: Step, inputs: AuditInputs, knowledge: Knowledge, *, within: float, seed: int, watch: Watch, resources: Resources
) -> Rung:
    """Attack the changed model as an attacker who knows of the change would, and see what it is still good for."""
    subject, held_out = subject_of(inputs, knowledge)
    rebuilt, certified, spent = 0, False, 0.0
    for option in (o for o in choose(subject.release) if o.place is not None):
        guess = option.attack.run(subject.release, seed=seed, watch=watch, resources=resources)
        spent += guess.seconds
        count = count_rebuilt(subject, held_out, subject.inputs_from(guess), within, seed=seed)
        rebuilt, certified = max((rebuilt, certified), (count, guess.certified))
        if rebuilt == subject.truth.n:
            break
    return Rung(
        step=step.step,
        setting=step.setting,
        how=step.how,
        rebuilt=rebuilt,
        n=subject.truth.n,
        certified=certified and rebuilt > 0,
        train_error=training_error(subject, subject.truth)[0],
        held_out_error=None if held_out is None else training_error(subject, held_out)[0],
        seconds=spent,
    )


def count_rebuilt(subject: Subject, held_out: Dataset | None, inputs: Reconstruction, within: float, *, seed: int) -> int:
    """Training samples near a row; none where samples that were not trained on are as near as often."""
    others, _ = references(subject.truth, held_out, seed)
    best = 0
    for view in views(inputs.scale):
        rows = view(inputs.rows)
        errors = near(rows, view(subject.truth.rows))
        if beyond_chance(errors, near(rows, view(others)), within):
            best = max(best, int((errors < within).sum()))
    return best
