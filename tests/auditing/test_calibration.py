"""False positives counted by hand, and what the attack on shuffled weights is given and may claim."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exhume.attacks import Resources
from exhume.auditing.calibration import Calibration, calibrate
from exhume.auditing.nearness import as_is, directions
from exhume.result import Status
from support.audit_cases import ScriptedAttack, network_case, pipeline_case, reconstruction


def calibrated(rows: torch.Tensor, null: torch.Tensor | None = None, within: float = 0.1, **changes: Any) -> Calibration:
    """The calibration of these rows on the pipeline, where the attack on shuffled weights gives `null`."""
    subject, held_out = pipeline_case()
    answer = torch.zeros(0, 30) if null is None else null
    settings: dict[str, Any] = {"held_out": held_out, "seed": 0, "resources": Resources(), "view": as_is}
    attack = ScriptedAttack(answer=lambda _: reconstruction(answer))
    return calibrate(subject, reconstruction(rows), attack, within=within, **(settings | changes))


def brute(rows: torch.Tensor, samples: torch.Tensor, within: float) -> int:
    found, true = rows.numpy(), samples.numpy()
    return sum(min(np.linalg.norm(x - r) for r in found) < within * np.linalg.norm(x) for x in true)


def test_false_positives_are_held_out_samples_near_a_row() -> None:
    subject, held_out = pipeline_case()
    rows = torch.cat([subject.truth.rows, held_out.rows[:3] * 1.01])
    found = calibrated(rows)
    assert (found.reference, found.references) == ("held-out samples", 40)
    assert found.false_positives == brute(rows, held_out.rows, 0.1) == 3
    assert found.rate == 3 / 40
    # The upper end of Wilson's interval, written out.
    z, share, n = 1.959964, 3 / 40, 40
    upper = (share + z * z / (2 * n) + z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)) / (1 + z * z / n)
    assert found.upper == pytest.approx(upper, abs=1e-6)


def test_without_held_out_samples_columns_are_drawn_anew() -> None:
    found = calibrated(pipeline_case()[0].truth.rows, held_out=None)
    assert (found.reference, found.references) == ("training samples with their columns shuffled", 500)
    assert found.false_positives == 0


def test_exact_rows_are_beyond_chance_and_held_out_ones_are_not() -> None:
    subject, held_out = pipeline_case()
    assert calibrated(subject.truth.rows).beyond_chance
    assert not calibrated(held_out.rows[:5]).beyond_chance


@pytest.mark.parametrize(("matches", "told"), [(0, True), (2, True), (3, False)])
def test_shuffled_weights_that_claim_half_as_much_take_the_claim_back(matches: int, told: bool) -> None:
    rows = pipeline_case()[0].truth.rows
    found = calibrated(rows, null=rows[:matches])
    assert (found.null_rows, found.null_matches, found.beyond_chance) == (matches, matches, told)


def test_rows_within_three_times_the_distance_are_likenesses() -> None:
    subject, held_out = pipeline_case()
    noise = torch.randn(5, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    noise *= 0.05 * subject.truth.rows.norm(dim=1, keepdim=True) / noise.norm(dim=1, keepdim=True)
    found = calibrated(subject.truth.rows + noise, within=0.02)
    assert not found.beyond_chance
    assert found.likenesses == 5
    assert calibrated(held_out.rows[:5], within=0.02).likenesses == 0


def test_the_view_decides_what_is_compared() -> None:
    subject, held_out = pipeline_case()
    doubled = 2 * subject.truth.rows
    assert not calibrated(doubled).beyond_chance
    assert calibrated(doubled, view=directions).beyond_chance
    assert calibrated(2 * held_out.rows[:4], view=directions).false_positives == 4


@pytest.mark.parametrize("case", [lambda: pipeline_case()[0], network_case])
def test_the_null_is_the_same_weights_at_other_features_with_a_quarter_of_the_work(case: Any, tmp_path: Path) -> None:
    subject = case()
    attack = ScriptedAttack(answer=lambda release: reconstruction(torch.ones(2, release.d), Status.CERTIFIED))
    resources = Resources(checkpoint=tmp_path / "run.ckpt", memory=12345)
    guess = reconstruction(subject.truth.rows, passes=402)
    found = calibrate(subject, guess, attack, held_out=None, within=0.1, seed=3, resources=resources, view=as_is)
    ((release, seed, given),) = attack.seen
    assert found.null_certified
    assert seed == 3
    assert given == replace(resources, checkpoint=None, most_passes=100)
    head = subject.release.network.head_weight
    # Every feature of the null holds the weights of exactly one feature of the release, in all three places alike.
    order = [int((subject.release.trained[head] == column[:, None]).all(0).nonzero()[0]) for column in release.trained[head].T]
    assert sorted(order) == list(range(release.p))
    assert order != list(range(release.p))
    assert torch.equal(release.weights, subject.release.weights[:, order])
    assert torch.equal(release.initial[head], subject.release.initial[head][:, order])
    first = subject.release.model.first_weight
    # Every unit has its own weights at other inputs, before and after training alike: no sample is left in the change.
    places = (release.initial[first][:, :, None] == subject.release.initial[first][:, None, :]).int().argmax(dim=2)
    assert torch.equal(places.sort(dim=1).values, torch.arange(places.shape[1]).expand_as(places))
    assert torch.equal(release.trained[first], subject.release.trained[first].gather(1, places))
    assert torch.equal(places[0], places[1]) == subject.release.features_stayed


def test_no_references_are_no_false_positives() -> None:
    assert Calibration("none", 0, 0, 1.0, None, None, False, False, 0).rate == 0
