"""Rows against samples: in which view they are compared, how near they are, and whether that is more than chance gives."""

from __future__ import annotations

from collections.abc import Callable

import torch
from scipy.stats import binomtest

from exhume.data import Dataset
from exhume.linalg import streams

View = Callable[[torch.Tensor], torch.Tensor]

# Lengths that are given or leave a trace in the features. All others were inferred, and may be wrong where directions are right.
_SURE = ("known norm", "fitted")
_REFERENCES = 500
# Chance is tested within these shares of the distance that counts, ...
_SHARES = (1.0, 1 / 4, 1 / 16, 1 / 64)
# ... at this level of significance over all of them.
_LEVEL = 0.01


def as_is(rows: torch.Tensor) -> torch.Tensor:
    """Rows with their lengths."""
    return rows


def directions(rows: torch.Tensor) -> torch.Tensor:
    """Rows at length sqrt(d): what can be compared where lengths are not known."""
    return rows * (rows.shape[1] ** 0.5 / rows.norm(dim=1, keepdim=True).clamp(min=1e-300))


def views(scale: str) -> tuple[View, ...]:
    """How rows whose lengths come from `scale` may be compared with samples."""
    if scale in _SURE:
        return (as_is,)
    return (directions,) if scale == "unknown" else (as_is, directions)


def nearest(rows: torch.Tensor, samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Relative distance of every sample to the nearest rebuilt row, and which one that is, (n,) each."""
    if not len(rows):
        return torch.full((len(samples),), torch.inf, dtype=torch.float64), torch.zeros(len(samples), dtype=torch.int64)
    distance, index = torch.cdist(samples.double(), rows.double(), compute_mode="donot_use_mm_for_euclid_dist").min(dim=1)
    return distance / samples.double().norm(dim=1).clamp(min=1e-300), index


def near(rows: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Relative distance of every sample to the nearest rebuilt row, (n,)."""
    return nearest(rows, samples)[0]


def references(truth: Dataset, held_out: Dataset | None, seed: int) -> tuple[torch.Tensor, str]:
    """Samples that the model was not trained on, and what they are; with none held out, training columns drawn anew."""
    if held_out is not None:
        return held_out.rows, "held-out samples"
    index = torch.randint(truth.n, (_REFERENCES, truth.d), generator=streams.generator(seed, "references", 0))
    return truth.rows.gather(0, index), "training samples with their columns shuffled"


def beyond_chance(errors: torch.Tensor, others: torch.Tensor, within: float) -> bool:
    """Whether samples are near to rows more often than samples not trained on (`others`): a binomial test at 1%.

    Where no other sample is that near, chance is taken to fall with the square of the distance, as in two dimensions.
    """
    loose = (int((others < within).sum()) + 1) / (len(others) + 1)
    for share in _SHARES:
        rate = max(float((others < share * within).double().mean()), loose * share**2)
        found = int((errors < share * within).sum())
        if found and binomtest(found, len(errors), min(rate, 1.0), alternative="greater").pvalue * len(_SHARES) < _LEVEL:
            return True
    return False
