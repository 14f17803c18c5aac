"""One trial: train a victim, attack its release, score the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from exhume.attacks import Attack, GaussNewton, Progress, Resources, Watch, ignore
from exhume.attacks.run import Clock
from exhume.data import DataRequest, Dataset, load
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.linalg.blocks import peak_rss_mb
from exhume.release import Release
from exhume.result import Reconstruction
from exhume.score import Score, evaluate
from exhume.victims import Trained, Victim, VictimSettings, make_victim

# Below this size of V, float64 costs seconds and brings errors down to 1e-14.
_FLOAT64_LIMIT = 40_000_000
DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Trial:
    """All that fixes a trial: the data, the victim, what the attacker knows, and the attack.

    >>> Trial(DataRequest("digits", n=10), ratio=5.0).victim
    'rf'
    """

    data: DataRequest
    victim: str = "rf"
    loss: str = "square"
    k: int = 1  # outputs
    ratio: float | None = 4.0  # p / (d n), where p counts the last layer of all outputs
    p: int | None = None  # instead of a ratio
    widths: tuple[int, ...] = ()  # mlp: units of each hidden layer, instead of p
    bias: bool = False  # mlp
    optimizer: str = "gd"
    batch: int | None = None
    lr: float | None = None
    epochs: int | None = None
    activation: str = "relu"
    ridge: float = 0.0
    weight_decay: float = 0.0
    prune: float = 0.0
    init_scale: float = 1.0
    train_to: float | None = None
    schedule: str = "fast"
    seed: int = 0
    dtype: str = "auto"
    allow_underfit: bool = False
    knowledge: Knowledge = Knowledge()
    attack: Attack = field(default_factory=GaussNewton)

    def make_victim(self, dataset: Dataset) -> Victim:
        """The victim for a dataset, whose size fixes p where a ratio was given."""
        if self.p is not None and self.widths:
            raise ExhumeError("--widths says how large the last layer is. Leave --p out.")
        if self.p is None and (self.ratio is None or not 0 < self.ratio < 1e9):
            raise ExhumeError(f"--ratio must be a positive number, got {self.ratio}.")
        p = self.p if self.p is not None else max(1, round((self.ratio or 0) * dataset.d * dataset.n))
        p = self.k * self.widths[-1] if self.widths else p
        auto = "float64" if p * dataset.d <= _FLOAT64_LIMIT * self.k else "float32"
        settings = VictimSettings(
            p=p,
            seed=self.seed,
            dtype=DTYPES[auto if self.dtype == "auto" else self.dtype],
            knowledge=self.knowledge,
            loss=self.loss,
            k=self.k,
            activation=self.activation,
            ridge=self.ridge,
            weight_decay=self.weight_decay,
            prune=self.prune,
            init_scale=self.init_scale,
            train_to=self.train_to,
            schedule=self.schedule,
            allow_underfit=self.allow_underfit,
            widths=self.widths,
            bias=self.bias,
            optimizer=self.optimizer,
            batch=self.batch,
            lr=self.lr,
            epochs=self.epochs,
        )
        return make_victim(self.victim, settings)


@dataclass(frozen=True)
class TrialResult:
    """Everything that a trial made; `row()` is its line in a table."""

    trial: Trial
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
                "victim": self.trial.victim,
                "objective": self.trial.loss,
                "k": self.release.k,
                "d": self.release.d,
                "p": self.release.p * self.release.k,
                "ratio": self.release.p * self.release.k / (self.release.d * self.truth.n),
                "activation": self.release.model.activation,
                "ridge": self.trial.ridge,
                "seed": self.trial.seed,
                "dtype": str(self.release.weights.dtype).removeprefix("torch."),
                "train_loss": self.train_loss,
                **self.course,
                "peak_rss_mb": self.peak_rss_mb,
                "notes": [*self.truth.notes, *self.guess.notes],
            }
        )


def train_victim(trial: Trial, dataset: Dataset, *, watch: Watch = ignore, resources: Resources = Resources()) -> Trained:
    """Train the victim that a trial describes; a network's training keeps a checkpoint of its own."""
    path = resources.checkpoint_file
    return trial.make_victim(dataset).train(
        dataset,
        device=resources.device,
        memory=resources.memory,
        report=_training_progress(watch),
        checkpoint=None if path is None else path.with_name(f"{path.name}.training"),
    )


def _training_progress(watch: Watch) -> Callable[[int, float], None]:
    clock = Clock()
    return lambda step, loss: watch(Progress("train", step, loss, 0, 0, clock.seconds, None, torch.empty(0)))


def run_trial(trial: Trial, *, watch: Watch = ignore, resources: Resources = Resources()) -> TrialResult:
    """Train, attack, score: the attack sees the release and nothing else.

    Args:
        trial: data, victim, the attacker's knowledge and the attack.
        watch: is told of every outer step.
        resources: device, memory, checkpoint.

    Returns:
        The truth, the release, the reconstruction and its score; `row()` is all of it as one flat JSON object.

    >>> result = run_trial(Trial(DataRequest("sphere", d=20, n=4), ratio=8.0))
    >>> result.guess.status.value, result.score.n_found
    ('converged and certified', 4)
    """
    trained = train_victim(trial, load(trial.data), watch=watch, resources=resources)
    return attack_victim(trial, trained, watch=watch, resources=resources)


def attack_victim(trial: Trial, trained: Trained, *, watch: Watch = ignore, resources: Resources = Resources()) -> TrialResult:
    """The trial's attack on a trained victim, scored."""
    guess = trial.attack.run(trained.release, seed=trial.seed, watch=watch, resources=resources)
    score = evaluate(guess, trained.truth, trained.release, device=resources.device)
    return TrialResult(trial, trained.truth, trained.release, guess, score, trained.train_loss, peak_rss_mb(), trained.course)
