"""One cell of an experiment: train a victim, attack its release, score the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from exhume.attacks import Attack, GaussNewton, Progress, Resources, Watch
from exhume.attacks.base import Clock, ignore
from exhume.data import DataRequest, Dataset, load
from exhume.errors import ExhumeError, unknown_name
from exhume.linalg.blocks import peak_rss_mb
from exhume.release import Release
from exhume.result import Reconstruction
from exhume.score import Score, evaluate
from exhume.victims import VICTIMS, NetworkVictim, RandomFeaturesVictim, Trained, train_network, train_random_features

# Below this size of V, float64 costs seconds and brings errors down to 1e-14.
_FLOAT64_LIMIT = 40_000_000
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Cell:
    """All that fixes a trial."""

    data: DataRequest
    victim: str = "rf"
    loss: str = "square"
    k: int = 1  # outputs
    ratio: float | None = 4.0  # p / (d n), where p counts the last layer of all outputs
    p: int | None = None  # instead of a ratio
    activation: str = "relu"
    ridge: float = 0.0
    weight_decay: float = 0.0
    prune: float = 0.0
    init_scale: float = 1.0
    train_to: float | None = None
    schedule: str = "fast"
    know_init: str = "all"
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
    course: dict[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The trial as one flat JSON object."""
        score = {k: v for k, v in asdict(self.score).items() if k != "matched" and v is not None and v != ()}
        return (
            score
            | self.guess.row()
            | {
                "data": self.truth.name,
                "victim": self.cell.victim,
                "objective": self.cell.loss,
                "k": self.release.k,
                "d": self.release.d,
                "p": self.release.p * self.release.k,
                "ratio": self.release.p * self.release.k / (self.release.d * self.truth.n),
                "activation": self.release.features.activation,
                "ridge": self.cell.ridge,
                "seed": self.cell.seed,
                "dtype": str(self.release.weights.dtype).removeprefix("torch."),
                "train_loss": self.train_loss,
                **self.course,
                "peak_rss_mb": self.peak_rss_mb,
                "notes": [*self.truth.notes, *self.guess.notes],
            }
        )


def train_cell(cell: Cell, dataset: Dataset, *, watch: Watch = ignore, resources: Resources = Resources()) -> Trained:
    """Train the victim that a cell describes on its dataset; a network's training keeps a checkpoint of its own."""
    if cell.p is None and (cell.ratio is None or not 0 < cell.ratio < 1e9):
        raise ExhumeError(f"--ratio must be a positive number, got {cell.ratio}.")
    if cell.victim not in VICTIMS:
        raise unknown_name("victim", cell.victim, VICTIMS)
    p = cell.p if cell.p is not None else max(1, round((cell.ratio or 0) * dataset.d * dataset.n))
    auto = "float64" if p * dataset.d <= _FLOAT64_LIMIT * cell.k else "float32"
    shared: dict[str, Any] = {
        "loss": cell.loss,
        "seed": cell.seed,
        "dtype": DTYPES[auto if cell.dtype == "auto" else cell.dtype],
        "know_n": cell.know_n,
        "know_labels": cell.know_labels,
        "know_norm": cell.know_norm,
    }
    if cell.victim != "rf":
        if cell.ridge or cell.activation != "relu":
            raise ExhumeError("networks take --weight-decay instead of --ridge, and their own activation. Leave both out.")
        network = NetworkVictim(
            architecture=cell.victim,
            last_layer=p,
            k=cell.k,
            weight_decay=cell.weight_decay,
            prune=cell.prune,
            init_scale=cell.init_scale,
            train_to=cell.train_to,
            schedule=cell.schedule,
            know_init=cell.know_init,
            **shared,
        )
        path = None if resources.checkpoint is None else resources.checkpoint.with_name(f"{resources.checkpoint.name}.training")
        return train_network(network, dataset, device=resources.device, report=_training_progress(watch), checkpoint=path)
    if cell.k != 1 or cell.weight_decay:
        raise ExhumeError("--k and --weight-decay belong to networks. Give --victim two-layer, or --ridge for rf.")
    victim = RandomFeaturesVictim(
        p=p,
        activation=cell.activation,
        ridge=cell.ridge,
        prune=cell.prune,
        allow_underfit=cell.allow_underfit,
        **shared,
    )
    return train_random_features(victim, dataset, device=resources.device, memory=resources.memory)


def _training_progress(watch: Watch) -> Callable[[int, float], None]:
    clock = Clock()
    return lambda step, loss: watch(Progress("train", step, loss, 0, 0, clock.seconds, None, torch.empty(0)))


def run_trial(cell: Cell, *, watch: Watch = ignore, resources: Resources = Resources()) -> TrialResult:
    """Train, attack, score: the attack sees the release and nothing else."""
    trained = train_cell(cell, load(cell.data), watch=watch, resources=resources)
    return attack_victim(cell, trained, watch=watch, resources=resources)


def attack_victim(cell: Cell, trained: Trained, *, watch: Watch = ignore, resources: Resources = Resources()) -> TrialResult:
    """The cell's attack on a trained victim, scored."""
    guess = cell.attack.run(trained.release, seed=cell.seed, watch=watch, resources=resources)
    score = evaluate(guess, trained.truth, trained.release, device=resources.device)
    return TrialResult(cell, trained.truth, trained.release, guess, score, trained.train_loss, peak_rss_mb(), trained.course)
