"""The audit: recognise the model, look before, attack, score, calibrate, judge."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from exhume.attacks import Attack, Resources, Watch, ignore
from exhume.attacks.run import run_identity
from exhume.auditing.attack_order import Option, choose
from exhume.auditing.calibration import Calibration, calibrate
from exhume.auditing.nearness import directions, near, nearest, views
from exhume.auditing.preflight import Preflight, preflight, training_error
from exhume.auditing.subject import Subject
from exhume.auditing.verdict import LIMITS, Verdict, judge
from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.linalg.blocks import peak_rss_mb
from exhume.release import Release
from exhume.result import Reconstruction, Status, load_reconstruction, save_reconstruction
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
    directions: bool  # rows and samples were compared by their directions
    utility: dict[str, float]
    within: float
    seed: int
    seconds: float
    peak_rss_mb: float

    def row(self) -> dict[str, Any]:
        """The audit as one JSON object (see docs/reference/audit.schema.json)."""
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
    # Of the views that fit, the one in which more samples are near: a wrong length must not hide a right direction.
    view = max(views(inputs.scale), key=lambda v: int((near(v(inputs.rows), v(subject.truth.rows)) < within).sum()))
    seen, truth = replace(inputs, rows=view(inputs.rows)), replace(subject.truth, rows=view(subject.truth.rows))
    score = evaluate(seen, truth, None, within=within)
    exposures = _exposures(seen, truth, within)
    calibration = calibrate(
        subject,
        inputs,
        used,
        held_out=held_out,
        within=within,
        seed=seed,
        resources=resources,
        view=view,
    )
    utility = {"train_error": training_error(subject, subject.truth)[0]}
    if held_out is not None:
        utility["held_out_error"] = training_error(subject, held_out)[0]
    fitted_alone = subject.release.features_stayed or subject.release.initial
    return Audit(
        subject=subject,
        knowledge=knowledge if fitted_alone else replace(knowledge, init="none"),
        law=law,
        options=tuple(options),
        attempts=tuple(attempts),
        guess=inputs,
        score=score,
        exposures=exposures,
        calibration=calibration,
        verdict=judge(
            sum(one.rebuilt for one in exposures), inputs, law, calibration, within=within, directions=view is directions
        ),
        directions=view is directions,
        utility=utility,
        within=within,
        seed=seed,
        seconds=time.perf_counter() - began,
        peak_rss_mb=peak_rss_mb(),
    )


def _attack(
    subject: Subject, options: list[Option], seed: int, watch: Watch, stage: Callable[[str], None], resources: Resources
) -> tuple[Reconstruction, Attack, list[Attempt]]:
    """Attempts in their order until one is not stalled; the best of them."""
    found: list[tuple[Reconstruction, Attack]] = []
    attempts = []
    for option in (o for o in options if o.place is not None):
        stage(f"attacking: {option.attack.name} ({option.why})")
        guess = _resumed(option, subject.release, seed, watch, resources)
        found.append((guess, option.attack))
        attempts.append(
            Attempt(option.attack.name, option.why, guess.status.value, guess.reason, len(guess.rows), guess.loss, guess.seconds)
        )
        if guess.status is not Status.STALLED:
            break
    best = min(found, key=lambda one: (_ORDER.index(one[0].status), one[0].loss))
    return *best, attempts


def _resumed(option: Option, release: Release, seed: int, watch: Watch, resources: Resources) -> Reconstruction:
    """The attack's answer; with a checkpoint each attempt has files of its own, and a finished one is not run again."""
    checkpoint = resources.checkpoint_file
    if checkpoint is None:
        return option.attack.run(release, seed=seed, watch=watch, resources=resources)
    key = hashlib.sha256(json.dumps(run_identity(option.attack, release, seed), sort_keys=True).encode()).hexdigest()[:12]
    path = checkpoint.with_name(f"{checkpoint.name}.{key}")
    finished = path.with_name(f"{path.name}.done")
    if finished.is_file():
        return load_reconstruction(finished)
    guess = option.attack.run(release, seed=seed, watch=watch, resources=replace(resources, checkpoint=path))
    save_reconstruction(guess, finished)
    return guess


def _exposures(guess: Reconstruction, truth: Dataset, within: float) -> tuple[Exposure, ...]:
    """Every sample with the row nearest to it, the nearest first; equal samples share a row."""
    bars = guess.certificate.row_errors
    errors, rows = (part.tolist() for part in nearest(guess.rows, truth.rows))
    if not len(guess.rows):
        return tuple(Exposure(i, None, 1.0, None, rebuilt=False) for i in range(truth.n))
    made = [
        Exposure(i, row, error, bars[row] if row < len(bars) else None, error < within)
        for i, (error, row) in enumerate(zip(errors, rows, strict=True))
    ]
    return tuple(sorted(made, key=lambda one: one.error))
