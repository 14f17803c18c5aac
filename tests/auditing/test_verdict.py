"""What is said of every outcome, and what is never said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from exhume.auditing.calibration import Calibration
from exhume.auditing.preflight import Preflight
from exhume.auditing.verdict import Verdict, judge
from exhume.result import Reconstruction, Status
from support.audit_cases import pipeline_law, reconstruction

CALM = Calibration("held-out samples", 200, 1, 0.0278, 4, 0, False, True, 0)
CHANCE = replace(CALM, beyond_chance=False)
STALLED, PROVED = reconstruction(torch.ones(7, 30)), reconstruction(torch.ones(7, 30), Status.CERTIFIED)


def law(**changes: Any) -> Preflight:
    return replace(pipeline_law(), **changes)


def judged(found: int, guess: Reconstruction, calibration: Calibration, *, directions: bool = False, **changes: Any) -> Verdict:
    return judge(found, guess, law(**changes), calibration, within=0.1, directions=directions)


SHORT: dict[str, Any] = {"determined": False, "equations_per_unknown": 0.55, "ratio": 0.5, "weights_per_coordinate": 0.5}
DEEP: dict[str, Any] = SHORT | {"weights_per_coordinate": 8.0}


@pytest.mark.parametrize(
    ("found", "guess", "calibration", "changes", "level", "rebuilt", "certified", "headline"),
    [
        (5, PROVED, CALM, {}, "rebuilt", 5, True, "5 of 5 training samples were rebuilt from the weights, and the attacker can"),
        (3, STALLED, CALM, {}, "rebuilt without proof", 3, False, "Do not release: 3 of 5 training samples were rebuilt"),
        (2, STALLED, CHANCE, {}, "not told from chance", 0, False, "Nothing was rebuilt that chance would not give"),
        (2, PROVED, CHANCE, {}, "other data", 0, False, "The weights give up samples, but none of the data given"),
        (0, PROVED, CHANCE, {}, "other data", 0, False, "The weights give up samples, but none of the data given"),
        (0, STALLED, CHANCE, {}, "resisted", 0, False, "Nothing was rebuilt by these attacks, although"),
        (0, STALLED, CHANCE, SHORT, "not recoverable", 0, False, "Not recoverable by these attacks"),
        (0, STALLED, CHANCE, DEEP, "resisted", 0, False, "Nothing was rebuilt by these attacks, although"),
    ],
)
def test_every_outcome_has_its_verdict(
    found: int,
    guess: Reconstruction,
    calibration: Calibration,
    changes: dict,
    level: str,
    rebuilt: int,
    certified: bool,
    headline: str,
) -> None:
    verdict = judged(found, guess, calibration, **changes)
    assert (verdict.level, verdict.rebuilt, verdict.n, verdict.certified) == (level, rebuilt, 5, certified)
    assert headline in verdict.headline


def test_the_false_positive_rate_stands_beside_every_claim() -> None:
    rate = (
        "By the same rule 1 of 200 held-out samples would count as rebuilt (at most 2.8% at 95% confidence), and an attack on "
        "shuffled weights claimed 0 of 5."
    )
    for found, guess, calibration in ((5, PROVED, CALM), (3, STALLED, CALM), (2, STALLED, CHANCE), (2, PROVED, CHANCE)):
        assert rate in judged(found, guess, calibration).detail
    assert "shuffled weights claimed 3 of 5" in judged(5, PROVED, replace(CALM, null_matches=3)).detail


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("unknown", "in direction, their length being unknown"),
        ("from range", "in direction, their length being inferred (from range) and off"),
    ],
)
def test_a_comparison_of_directions_is_named(scale: str, words: str) -> None:
    guess = replace(PROVED, scale=scale)
    assert f"Rebuilt means within 10% {words}." in judged(5, guess, CALM, directions=True).detail
    assert "Rebuilt means within 10% of their length." in judged(5, guess, CALM).detail


def test_what_the_attacker_cannot_prove_has_its_reason() -> None:
    assert "cannot prove it from the weights alone: it is made by hand." in judged(3, STALLED, CALM).detail
    assert "It ended so: it is made by hand." in judged(0, STALLED, CHANCE).detail


def test_a_safe_count_is_told_with_its_margin() -> None:
    detail = judged(0, STALLED, CHANCE, **SHORT).detail
    assert "0.55 equations per unknown (p / (d n) = 0.5), where at least 1.1 are needed: a margin of 2." in detail


def test_a_short_last_layer_is_no_safety_where_other_layers_hold_enough() -> None:
    detail = judged(0, STALLED, CHANCE, **DEEP).detail
    assert "all layers together hold 8 trained weights per coordinate" in detail
    assert "not a proof of safety" in detail


@pytest.mark.parametrize("found", [0, 2])
def test_likenesses_are_named_where_nothing_counts(found: int) -> None:
    alike = replace(CHANCE, likenesses=4)
    assert "But 4 of 5 samples have a row within 30%" in judged(found, STALLED, alike).detail
    assert "likenesses" not in judged(found, STALLED, CHANCE).detail


@pytest.mark.parametrize(
    ("level", "rebuilt", "bearable", "leaks"),
    [
        ("rebuilt", 1, 0.0, True),
        ("rebuilt", 1, 0.2, False),
        ("rebuilt", 2, 0.2, True),
        ("resisted", 0, 0.0, False),
        ("other data", 0, 0.0, True),
        ("other data", 0, 0.9, True),
        ("other data", 0, 1.0, False),
    ],
)
def test_more_than_is_bearable_leaks_and_so_do_certified_rows_of_other_data(
    level: str, rebuilt: int, bearable: float, leaks: bool
) -> None:
    verdict = Verdict(level, "", "", rebuilt, 5, certified=False)
    assert verdict.leakage == rebuilt / 5
    assert verdict.leaks(bearable) is leaks
