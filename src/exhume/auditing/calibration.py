"""How often the same claim would be false: against samples that were not trained on, and against weights that hold none."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from scipy.stats import binomtest

from exhume.attacks import Attack, Resources
from exhume.auditing.nearness import View, beyond_chance, near, references
from exhume.auditing.subject import Subject
from exhume.data import Dataset
from exhume.linalg import streams
from exhume.release import Release
from exhume.result import Reconstruction

# The attack on shuffled weights gets this share of the work that the real one took.
_NULL_SHARE = 0.25
# Rows that are not near may still be likenesses, up to this many times the distance.
LIKENESS = 3.0
# Matches must be this many times those that shuffled weights gave.
_NULL_TIMES = 2


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
    beyond_chance: bool  # the training samples are nearer to the rows than references are, and than to rows from shuffled weights
    likenesses: int  # training samples within LIKENESS times the distance, where that is more than references show

    @property
    def rate(self) -> float:
        """Share of references that would have been called rebuilt."""
        return self.false_positives / max(1, self.references)


def calibrate(
    subject: Subject,
    guess: Reconstruction,
    attack: Attack,
    *,
    held_out: Dataset | None,
    within: float,
    seed: int,
    resources: Resources,
    view: View,  # rows and samples as they are compared
) -> Calibration:
    """The false-positive rate of "rebuilt within `within`" on references, and a run on weights shuffled over the features."""
    samples, reference = references(subject.truth, held_out, seed)
    truth, rows = view(subject.truth.rows), view(guess.rows)
    errors, others = near(rows, truth), near(rows, view(samples))
    false = int((others < within).sum())
    upper = float(binomtest(false, len(samples)).proportion_ci(method="wilson").high)
    # Weights whose features were shuffled have the same size and values, and no sample in them.
    bounded = replace(resources, checkpoint=None, most_passes=max(1, int(_NULL_SHARE * guess.passes)))
    null = subject.inputs_from(attack.run(_shuffled(subject.release, seed), seed=seed, resources=bounded))
    matches = int((near(view(null.rows), truth) < within).sum())
    told = beyond_chance(errors, others, within) and int((errors < within).sum()) > _NULL_TIMES * matches
    loose = LIKENESS * within
    alike = int((errors < loose).sum()) if beyond_chance(errors, others, loose) else 0
    return Calibration(reference, len(samples), false, upper, len(null.rows), matches, null.certified, told, alike)


def _shuffled(release: Release, seed: int) -> Release:
    """The release with its last layer's weights handed to other features, and those of a trained first layer to other inputs."""
    order = torch.randperm(release.p, generator=streams.generator(seed, "null", 0))
    trained, initial = (release.model.reordered(side, order) for side in (release.trained, release.initial))
    optimizer = dict(release.optimizer)
    first = release.model.first_weight
    if first is not None and first in initial and not release.features_stayed:
        # Another order for every unit: a common one would leave the samples in the change, only with their inputs in that order.
        places = torch.rand(initial[first].flatten(1).shape, generator=streams.generator(seed, "null", 1)).argsort(dim=1)
        for side in (trained, initial, optimizer):
            for name in [key for key in side if key == first or key.endswith(f"/{first}")]:
                side[name] = side[name].flatten(1).gather(1, places).reshape(side[name].shape)
    return replace(
        release,
        weights=release.weights[:, order].contiguous(),
        trained=trained,
        initial=initial,
        optimizer=optimizer,
    )
