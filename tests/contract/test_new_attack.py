"""A new attack in a file of its own and one line: everything finds it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from exhume.attacks import ATTACKS, register
from support import attack_contract as contract
from support.command_line import exhume
from support.models import relu_pipeline
from support.power_attack import PowerAttack

NAME = "power"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(PowerAttack())
    yield
    del ATTACKS[NAME]


def test_the_command_line_takes_it_with_its_settings() -> None:
    small = ["--data", "sphere", "--d", "20", "--n", "3", "--ratio", "40"]
    row = json.loads(exhume("trial", *small, "--attack", NAME, "--rows", "3", "--json").stdout)
    assert (row["attack"], row["n_found"]) == (NAME, 3)
    assert row["rho"] < row["chance"]
    assert exhume("trial", *small, "--attack", NAME, "--starts", "3").returncode == 2
    assert "Did you mean 'power'" in exhume("trial", *small, "--attack", "powr").stderr


def test_compare_lists_and_runs_it_and_says_where_it_does_not_apply() -> None:
    assert "power iteration" in exhume("compare", "--list").stdout
    small = ["--data", "digits", "--n", "3", "--ratio", "6", "--attacks", f"subspace,{NAME}", "--quiet", "--json"]
    told = json.loads(exhume("compare", *small).stdout)
    assert [row["attack"] for row in told["attacks"]] == [NAME]
    told = json.loads(exhume("compare", "--victim", "two-layer", *small).stdout)
    assert [row["attack"] for row in told["attacks"]] == ["subspace"]
    assert "reads random features" in told["refused"][NAME]


def test_an_audit_explains_its_place(tmp_path: Path) -> None:
    io = pytest.importorskip("skops.io", reason="skops is not installed: pip install 'exhume[sklearn]'")
    model, X, y = relu_pipeline(6)
    io.dump(model, tmp_path / "pipe.skops")
    with open(tmp_path / "train.csv", "w", newline="") as file:
        csv.writer(file).writerows([[f"c{i}" for i in range(31)], *([*row, label] for row, label in zip(X, y, strict=True))])
    done = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--explain", "--json", cwd=tmp_path)
    options = {option["attack"]: option for option in json.loads(done.stdout)["options"]}
    assert options[NAME] == {"attack": NAME, "place": 3, "why": "a last resort, in seconds"}


@pytest.mark.parametrize(
    "promise",
    [
        contract.is_a_frozen_record,
        contract.says_whether_it_applies,
        contract.gives_the_same_rows_for_a_seed_and_reports_progress,
        contract.stops_when_its_work_is_spent,
    ],
)
def test_it_inherits_the_contract(promise: object) -> None:
    promise(NAME)  # type: ignore[operator]


@pytest.mark.parametrize(
    "promise",
    [contract.ends_in_the_same_rows_when_interrupted, contract.refuses_the_checkpoint_of_another_run, contract.survives_a_file],
)
def test_it_inherits_the_contract_on_files(promise: object, tmp_path: Path) -> None:
    promise(NAME, tmp_path)  # type: ignore[operator]


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_it_is_honest_about_too_few_equations(ratio: float) -> None:
    contract.never_certifies_too_few_equations(NAME, ratio)
