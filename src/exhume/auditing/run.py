"""The audit: recognise the model, look before, attack, score, calibrate, judge."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from exhume.attacks import Attack, Resources, Watch
from exhume.attacks.base import ignore
from exhume.auditing.calibrate import Calibration, calibrate, near
from exhume.auditing.choose import Option, choose
from exhume.auditing.preflight import Preflight, preflight, training_error
from exhume.auditing.subject import Knowledge, Subject
from exhume.auditing.verdict import LIMITS, Verdict, judge
from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.linalg.blocks import peak_rss_mb
from exhume.result import Reconstruction, Status
from exhume.score import Score, evaluate

FORMAT = "exhume-audit-1"
WITHIN = 0.1
_ORDER = (Status.CERTIFIED, Status.UNCERTIFIED, Status.STALLED)


@dataclass(frozen=True)
class Exposure:
    """One training sample and the rebuilt row nearest to it."""

    sample: int  # its place in the data given
    row: int | None  # the rebuilt row
    error: float  # relative distance
    error_bar: float | None  # standard error of that row by the certificate
    rebuilt: bool


@dataclass(frozen=True)
class Attempt:
    """One attack that was run."""

    attack: str
    why: str
    status: str
    reason: str
    rows: int
    loss: float
    seconds: float


@dataclass(frozen=True)
class Audit:
    """Everything that an audit found; `row()` is the report's JSON."""

    subject: Subject
    knowledge: Knowledge
    law: Preflight
    options: tuple[Option, ...]
    attempts: tuple[Attempt, ...]
    guess: Reconstruction
    score: Score
    exposures: tuple[Exposure, ...]  # most exposed first
    calibration: Calibration
    verdict: Verdict
    utility: dict[str, float]
    within: float
    seed: int
    seconds: float
    peak_rss_mb: float

    def row(self) -> dict[str, Any]:
        """The audit as one JSON object (see docs/audit.schema.json)."""
        return {
            "format": FORMAT,
            "model": {"name": self.subject.name, "about": self.subject.about},
            "verdict": asdict(self.verdict) | {"leakage": self.verdict.leakage, "within": self.within},
            "exposures": [asdict(one) for one in self.exposures],
            "law": asdict(self.law),
            "attacks": {
                "options": [{"attack": o.attack.name, "place": o.place, "why": o.why} for o in self.options],
                "attempts": [asdict(one) for one in self.attempts],
            },
            "result": self.guess.row() | {"error_bars": list(self.guess.certificate.row_errors)},
            "score": {k: v for k, v in asdict(self.score).items() if k not in ("matched",)},
            "calibration": asdict(self.calibration) | {"rate": self.calibration.rate},
            "knowledge": asdict(self.knowledge),
            "utility": self.utility,
            "limits": list(LIMITS),
            "seed": self.seed,
            "seconds": self.seconds,
            "peak_rss_mb": self.peak_rss_mb,
        }


def run_audit(
    subject: Subject,
    *,
    knowledge: Knowledge = Knowledge(),
    held_out: Dataset | None = None,
    attack: Attack | None = None,
    within: float = WITHIN,
    seed: int = 0,
    watch: Watch = ignore,
    stage: Callable[[str], None] = lambda text: None,
    resources: Resources = Resources(),
) -> Audit:
    """Attack the subject's release, score what came out against its data, and say how sure that is."""
    if not 0 < within < 1:
        raise ExhumeError(f"--within must lie between 0 and 1, got {within}.")
    if held_out is not None and held_out.d != subject.truth.d:
        raise ExhumeError(f"held-out samples have {held_out.d} dimensions, the training data {subject.truth.d}.")
    began = time.perf_counter()
    stage("looking at the model and its data")
    law = preflight(subject)
    options = [Option(attack, 1, "asked for")] if attack is not None else choose(subject.release)
    guess, used, attempts = _attack(subject, options, seed, watch, stage, resources)
    stage("scoring and calibrating")
    inputs = subject.inputs_from(guess)
    directions = inputs.scale == "unknown"
    seen = replace(inputs, rows=_unit(inputs.rows)) if directions else inputs
    truth = replace(subject.truth, rows=_unit(subject.truth.rows)) if directions else subject.truth
    score = evaluate(seen, truth, None, within=within)
    calibration = calibrate(
        subject,
        seen,
        used,
        held_out=held_out,
        within=within,
        seed=seed,
        resources=resources,
        as_seen=_unit if directions else _as_is,
    )
    utility = {"train_error": training_error(subject, subject.truth)[0]}
    if held_out is not None:
        utility["held_out_error"] = training_error(subject, held_out)[0]
    return Audit(
        subject=subject,
        knowledge=knowledge,
        law=law,
        options=tuple(options),
        attempts=tuple(attempts),
        guess=inputs,
        score=score,
        exposures=_exposures(seen, truth, score, within),
        calibration=calibration,
        verdict=judge(score, inputs, law, calibration, within=within, directions=directions),
        utility=utility,
        within=within,
        seed=seed,
        seconds=time.perf_counter() - began,
        peak_rss_mb=peak_rss_mb(),
    )


def _unit(rows: torch.Tensor) -> torch.Tensor:
    """Rows at length sqrt(d): what can be compared where lengths are not known."""
    return rows * (rows.shape[1] ** 0.5 / rows.norm(dim=1, keepdim=True).clamp(min=1e-300))


def _as_is(rows: torch.Tensor) -> torch.Tensor:
    return rows


def _attack(
    subject: Subject, options: list[Option], seed: int, watch: Watch, stage: Callable[[str], None], resources: Resources
) -> tuple[Reconstruction, Attack, list[Attempt]]:
    """Attempts in their order until one is not stalled; the best of them."""
    found: list[tuple[Reconstruction, Attack]] = []
    attempts = []
    for option in (o for o in options if o.place is not None):
        stage(f"attacking: {option.attack.name} ({option.why})")
        guess = option.attack.run(subject.release, seed=seed, watch=watch, resources=resources)
        found.append((guess, option.attack))
        attempts.append(
            Attempt(option.attack.name, option.why, guess.status.value, guess.reason, len(guess.rows), guess.loss, guess.seconds)
        )
        if guess.status is not Status.STALLED:
            break
    best = min(found, key=lambda one: (_ORDER.index(one[0].status), one[0].loss))
    return *best, attempts


def _exposures(guess: Reconstruction, truth: Dataset, score: Score, within: float) -> tuple[Exposure, ...]:
    """Every sample with its rebuilt row, the nearest first."""
    bars = guess.certificate.row_errors
    made = []
    for i, row in enumerate(score.matched):
        error = 1.0 if row is None else float(near(guess.rows[row : row + 1], truth.rows[i : i + 1])[0])
        made.append(Exposure(i, row, error, bars[row] if row is not None and row < len(bars) else None, error < within))
    return tuple(sorted(made, key=lambda one: one.error))
