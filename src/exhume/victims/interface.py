"""What every victim shares: how it is trained, and what comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from exhume.data import Dataset
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.release import Release

TrainingReport = Callable[[int, float], None]  # (step, mean loss)


def ignore_training(step: int, loss: float) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Trained:
    """A trained victim: what is released, what stays secret, and how well it fits."""

    release: Release
    truth: Dataset
    train_loss: float  # mean loss on the training set
    course: dict[str, Any] = field(default_factory=dict)  # networks: drift, change and spectrum of the first layer, steps


class Victim(ABC):
    """A model to be attacked: a frozen record of its settings, the attacker's knowledge among them."""

    @abstractmethod
    def train(
        self,
        dataset: Dataset,
        *,
        device: str = "cpu",
        memory: int = DEFAULT_BUDGET,
        report: TrainingReport = ignore_training,
        checkpoint: Path | None = None,  # written while training; an existing one is resumed
    ) -> Trained:
        """Train on the dataset; the release is what the attacker is told, the rest stays apart from it."""


def without_duplicates(dataset: Dataset) -> Dataset:
    """The dataset as truth. Identical rows leave one trace in the weights: one of them is kept, and a note says so."""
    seen: dict[bytes, int] = {}
    notes: list[str] = []
    keep: list[int] = []
    for i, row in enumerate(dataset.rows):
        first = seen.setdefault(row.numpy().tobytes(), i)
        if first == i:
            keep.append(i)
        else:
            notes.append(f"rows {first} and {i} are identical: they leave one trace in the weights and count once")
    if not notes:
        return dataset
    index = torch.tensor(keep)
    # Identical rows with unlike labels are fitted to a mean of them, so the size of that is not known.
    first_of = torch.tensor([seen[row.numpy().tobytes()] for row in dataset.rows])
    agree = torch.equal(dataset.labels, dataset.labels[first_of])
    labels = dataset.labels if agree else torch.stack([dataset.labels[first_of == i].mean() for i in first_of])
    return replace(
        dataset,
        rows=dataset.rows[index],
        labels=labels[index],
        label_size=dataset.label_size if agree else None,
        notes=(*dataset.notes, *notes),
    )
