"""One cell of an experiment: train a victim, attack its release, score the answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from exhume.attacks import Attack, GaussNewton, Resources, Watch
from exhume.attacks.base import ignore
from exhume.data import DataRequest, Dataset, load
from exhume.errors import ExhumeError
from exhume.linalg.blocks import peak_rss_mb
from exhume.release import Release
from exhume.result import Reconstruction
from exhume.score import Score, evaluate
from exhume.victims import RandomFeaturesVictim, train_random_features

# Below this size of V, float64 costs seconds and brings errors down to 1e-14.
_FLOAT64_LIMIT = 40_000_000
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Cell:
    """All that fixes a trial."""

    data: DataRequest
    ratio: float | None = 4.0  # p / (d n)
    p: int | None = None  # instead of a ratio
    activation: str = "relu"
    ridge: float = 0.0
    seed: int = 0
    dtype: str = "auto"
    know_n: bool = False
    know_labels: bool = True
    know_norm: bool = True
    allow_underfit: bool = False
    attack: Attack = field(default_factory=GaussNewton)


@dataclass(frozen=True)
class TrialResult:
    """Everything that a trial made; `row()` is its line in a table."""

    cell: Cell
    truth: Dataset
    release: Release
    guess: Reconstruction
    score: Score
    train_loss: float
    peak_rss_mb: float

    def row(self) -> dict[str, Any]:
        """The trial as one flat JSON object."""
        guess, proof = self.guess, self.guess.certificate
        score = {k: v for k, v in asdict(self.score).items() if k != "matched" and v is not None and v != ()}
        return score | {
            "data": self.truth.name,
            "d": self.release.d,
            "p": self.release.p,
            "ratio": self.release.p / (self.release.d * self.truth.n),
            "activation": self.release.features.activation,
            "ridge": self.cell.ridge,
            "seed": self.cell.seed,
            "dtype": str(self.release.weights.dtype).removeprefix("torch."),
            "attack": guess.attack,
            "certified": guess.certified,
            "status": guess.status.value,
            "reason": guess.reason,
            "loss": guess.loss,
            "equations": proof.equations,
            "unknowns": proof.unknowns,
            "row_error_max": max(proof.row_errors, default=None),
            "weakest_row": proof.weakest_row,
            "strongest_spare": proof.strongest_spare,
            "signs_resolved": guess.signs_resolved,
            "scale": guess.scale,
            "passes": guess.passes,
            "seconds": guess.seconds,
            "train_loss": self.train_loss,
            "peak_rss_mb": self.peak_rss_mb,
            "notes": [*self.truth.notes, *guess.notes],
        }


def victim_of(cell: Cell, dataset: Dataset) -> RandomFeaturesVictim:
    """The victim that a cell describes for its dataset."""
    if cell.p is None and (cell.ratio is None or not 0 < cell.ratio < 1e9):
        raise ExhumeError(f"--ratio must be a positive number, got {cell.ratio}.")
    p = cell.p if cell.p is not None else max(1, round((cell.ratio or 0) * dataset.d * dataset.n))
    auto = "float64" if p * dataset.d <= _FLOAT64_LIMIT else "float32"
    return RandomFeaturesVictim(
        p=p,
        activation=cell.activation,
        ridge=cell.ridge,
        seed=cell.seed,
        dtype=DTYPES[auto if cell.dtype == "auto" else cell.dtype],
        know_n=cell.know_n,
        know_labels=cell.know_labels,
        know_norm=cell.know_norm,
        allow_underfit=cell.allow_underfit,
    )


def run_trial(cell: Cell, *, watch: Watch = ignore, resources: Resources = Resources()) -> TrialResult:
    """Train, attack, score: the attack sees the release and nothing else."""
    dataset = load(cell.data)
    trained = train_random_features(victim_of(cell, dataset), dataset, device=resources.device, memory=resources.memory)
    guess = cell.attack.run(trained.release, seed=cell.seed, watch=watch, resources=resources)
    score = evaluate(guess, trained.truth, trained.release, device=resources.device, memory=resources.memory)
    return TrialResult(cell, trained.truth, trained.release, guess, score, trained.train_loss, peak_rss_mb())
