"""How often the same claim would be false: against samples that were not trained on, and against weights that hold none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from scipy.stats import binomtest

from exhume.attacks import Attack, Resources
from exhume.auditing.bounded import run_bounded
from exhume.auditing.subject import Subject
from exhume.data import Dataset
from exhume.linalg import streams
from exhume.release import FeatureSpec, Release
from exhume.result import Reconstruction

_REFERENCES = 500
# The attack on shuffled weights gets this share of the work that the real one took.
_NULL_SHARE = 0.25


@dataclass(frozen=True)
class Calibration:
    """False positives: references that would have been called rebuilt, and what an attack on shuffled weights claimed."""

    reference: str  # what the references are
    references: int
    false_positives: int
    upper: float  # 95% upper bound of the false-positive rate
    null_rows: int | None  # rows that the attack on shuffled weights gave; None where it was not run
    null_matches: int | None  # of the training samples, how many they would have claimed
    null_certified: bool

    @property
    def rate(self) -> float:
        """Share of references that would have been called rebuilt."""
        return self.false_positives / max(1, self.references)


def near(rows: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
    """Relative distance of every sample to the nearest rebuilt row, (n,)."""
    if not len(rows):
        return torch.full((len(samples),), float("inf"), dtype=torch.float64)
    distance = torch.cdist(samples.double(), rows.double(), compute_mode="donot_use_mm_for_euclid_dist").min(dim=1).values
    return distance / samples.double().norm(dim=1).clamp(min=1e-300)


def calibrate(
    subject: Subject,
    guess: Reconstruction,
    attack: Attack,
    *,
    held_out: Dataset | None,
    within: float,
    seed: int,
    resources: Resources,
    as_seen: Callable[[torch.Tensor], torch.Tensor],  # rows and samples as they are compared
) -> Calibration:
    """The false-positive rate of "rebuilt within `within`" on references, and a run on weights shuffled over the features."""
    samples, reference = references(subject.truth, held_out, seed)
    false = int((near(guess.rows, as_seen(samples)) < within).sum())
    upper = float(binomtest(false, len(samples)).proportion_ci(method="wilson").high)
    # Weights whose features were shuffled have the same size and values, and no sample in them.
    work = max(1, int(_NULL_SHARE * guess.passes))
    null = subject.inputs_from(run_bounded(attack, _shuffled(subject.release, seed), passes=work, seed=seed, resources=resources))
    matches = int((near(as_seen(null.rows), as_seen(subject.truth.rows)) < within).sum())
    return Calibration(reference, len(samples), false, upper, len(null.rows), matches, null.certified)


def references(truth: Dataset, held_out: Dataset | None, seed: int) -> tuple[torch.Tensor, str]:
    """Samples that the model was not trained on, and what they are."""
    if held_out is not None:
        return held_out.rows, "held-out samples"
    return _shuffled_columns(truth, seed), "training samples with their columns shuffled"


def beyond_chance(found: int, expected: float) -> bool:
    """Whether a count of rebuilt samples is more than twice what chance gives."""
    return found > 2 * expected


def _shuffled_columns(truth: Dataset, seed: int) -> torch.Tensor:
    """Rows that keep every column's values and no sample: each column is drawn anew from the training set."""
    generator = streams.generator(seed, "references", 0)
    index = torch.randint(truth.n, (_REFERENCES, truth.d), generator=generator)
    return truth.rows.gather(0, index)


def _shuffled(release: Release, seed: int) -> Release:
    order = torch.randperm(release.p, generator=streams.generator(seed, "null", 0))
    if isinstance(release.features, FeatureSpec):
        return replace(release, weights=release.weights[:, order].contiguous())
    head = f"{release.features.head}.weight"
    trained, initial = (
        {k: v[:, order].contiguous() if k == head else v for k, v in side.items()} for side in (release.trained, release.initial)
    )
    return replace(release, weights=release.weights[:, order].contiguous(), trained=trained, initial=initial)
