"""Subject: a user's model as an attacker holds it, the data it was trained on, and the way back to the user's own units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from exhume.data import Dataset
from exhume.release import Release
from exhume.result import Reconstruction

# A row whose constant coordinate is below this share of its norm has no length that could be read off.
_LEAST_CONSTANT = 1e-6

Outputs = Callable[[torch.Tensor], torch.Tensor]
Encode = Callable[[np.ndarray, np.ndarray], Dataset]


@dataclass(frozen=True)
class Subject:
    """One model under audit. Attacks see `release`, whose rows are `stretch` times the model's inputs, a 1 appended for a bias."""

    name: str
    about: str  # what the model was recognised as
    release: Release
    truth: Dataset  # the model's inputs and their labels
    outputs: Outputs  # the whole model: inputs (n, d) -> outputs (n, k)
    encode: Encode  # raw samples and labels -> the model's inputs
    classes: tuple[float, ...] = ()  # labels in the order of the outputs, for classifiers
    stretch: float = 1.0
    constant: bool = False
    notes: tuple[str, ...] = ()
    head: str | None = None  # the last layer's name in the user's module

    def rows_for(self, inputs: torch.Tensor) -> torch.Tensor:
        """Model inputs as rows of the release."""
        full = torch.cat([inputs, torch.ones_like(inputs[:, :1])], dim=1) if self.constant else inputs
        return full * self.stretch

    def inputs_from(self, guess: Reconstruction) -> Reconstruction:
        """The reconstruction with model inputs as rows; a constant coordinate tells each row's length."""
        rows = guess.rows.double()
        if not self.constant:
            return replace(guess, rows=rows / self.stretch)
        constant = rows[:, -1:] / rows.norm(dim=1, keepdim=True).clamp(min=1e-300)
        readable = constant > _LEAST_CONSTANT
        inputs = torch.where(readable, rows[:, :-1] / torch.where(readable, rows[:, -1:], 1.0), rows[:, :-1] / self.stretch)
        return replace(guess, rows=inputs, scale="from the bias")
