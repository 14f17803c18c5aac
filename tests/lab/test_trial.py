"""One trial: the victim that its fields describe, and the row that it ends in."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from exhume.attacks import Progress, Resources
from exhume.data import DataRequest, load
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.lab import Trial, TrialResult, run_trial, train_victim
from exhume.storage.atomic import json_text
from support.audit_cases import ScriptedAttack, reconstruction

DATA = DataRequest("sphere", n=5, d=20)
TRIAL = Trial(DATA, ratio=6.0)


@cache
def result() -> TrialResult:
    return run_trial(TRIAL)


@pytest.mark.parametrize(
    ("changes", "p"),
    [({}, 600), ({"ratio": 0.001}, 1), ({"p": 77}, 77), ({"p": 77, "ratio": None}, 77), ({"ratio": 1.004}, 100)],
)
def test_p_is_given_or_follows_from_the_ratio(changes: dict[str, Any], p: int) -> None:
    assert replace(TRIAL, **changes).make_victim(load(DATA)).p == p  # type: ignore[attr-defined]


@pytest.mark.parametrize("ratio", [None, 0.0, -1.0, math.nan, math.inf])
def test_a_ratio_that_is_no_positive_number_is_refused(ratio: float | None) -> None:
    with pytest.raises(ExhumeError, match="--ratio must be a positive number, got"):
        replace(TRIAL, ratio=ratio).make_victim(load(DATA))


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [
        ({}, torch.float64),
        ({"dtype": "float32"}, torch.float32),
        ({"p": 2_000_000}, torch.float64),  # 40 million entries of V
        ({"p": 2_000_001}, torch.float32),
        ({"p": 2_000_001, "dtype": "float64"}, torch.float64),
    ],
)
def test_small_problems_are_computed_in_float64(changes: dict[str, Any], dtype: torch.dtype) -> None:
    assert replace(TRIAL, **changes).make_victim(load(DATA)).dtype == dtype  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("victim", "changes"),
    [
        ("rf", {"ridge": 0.3, "prune": 0.2, "activation": "tanh", "seed": 4, "allow_underfit": True, "loss": "logistic"}),
        ("two-layer", {"weight_decay": 0.3, "init_scale": 2.0, "train_to": 1e-3, "schedule": "paper", "k": 3, "seed": 4}),
    ],
)
def test_every_setting_reaches_the_victim(victim: str, changes: dict[str, Any]) -> None:
    knowledge = Knowledge(n=True)
    made = replace(TRIAL, victim=victim, knowledge=knowledge, **changes).make_victim(load(DATA))
    assert made.knowledge == knowledge  # type: ignore[attr-defined]
    assert {name: getattr(made, name) for name in changes} == changes


def test_a_trial_trains_attacks_and_scores() -> None:
    done = result()
    assert done.guess.certified
    assert done.score.rho_signed < 1e-6
    assert torch.equal(done.truth.rows, load(DATA).rows)
    assert done.release.p == 600


def test_the_row_is_flat_json_with_sizes_score_and_cost() -> None:
    row = json.loads(json_text(result().row()))
    expected = {"victim": "rf", "objective": "square", "k": 1, "d": 20, "p": 600, "ratio": 6.0, "activation": "relu", "seed": 0}
    assert expected.items() <= row.items()
    assert (row["n_true"], row["n_found"], row["covered"], row["dtype"], row["certified"]) == (5, 5, 5, "float64", True)
    assert row["rho_signed"] == result().score.rho_signed
    assert row["train_loss"] < 1e-20
    assert "matched" not in row
    assert "psnr" not in row  # vectors are no pictures
    assert all(not isinstance(value, dict) for value in row.values())


def test_the_attack_sees_the_seed_and_the_resources() -> None:
    attack = ScriptedAttack(answer=lambda release: reconstruction(torch.zeros(1, release.d), notes=("by hand",)))
    resources = Resources(memory=12_345_678)
    done = run_trial(replace(TRIAL, attack=attack, seed=9), resources=resources)
    assert attack.seen[0][1:] == (9, resources)  # type: ignore[attr-defined]
    assert done.row()["notes"] == ["by hand"]


def test_training_is_watched_with_no_rows_to_show() -> None:
    seen: list[Progress] = []
    small = Trial(DataRequest("wine", n=8), victim="two-layer", p=60, train_to=1e-9)
    train_victim(small, load(small.data), watch=seen.append)
    assert seen
    assert {(now.stage, now.rows, now.eta) for now in seen} == {("train", 0, None)}
    assert [now.step for now in seen] == sorted(now.step for now in seen)
    assert seen[-1].X.numel() == 0
