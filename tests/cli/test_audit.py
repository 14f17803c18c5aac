"""`exhume audit`: a verdict, a page and an exit code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from exhume.attacks import ATTACKS
from support.command_line import exhume


def test_an_audit_ends_in_a_verdict_a_page_and_an_exit_code(case: Path) -> None:
    done = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--holdout", "test.csv", "--json", cwd=case)
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"]["rebuilt"] == 5
    page = (case / "exhume-audit" / "index.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert {path.name for path in (case / "exhume-audit").iterdir()} == {"index.html", "report.json", "run.json"}
    bearable = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--fail-above", "1", "--out", "b", cwd=case)
    assert bearable.returncode == 0
    assert "Do not release" in bearable.stdout


def test_explain_runs_no_attack(case: Path) -> None:
    told = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--explain", "--out", "none", cwd=case)
    assert told.returncode == 0
    assert "gauss-newton" in told.stdout
    assert "1. gauss-newton" in told.stdout
    assert "not run: " in told.stdout
    assert not (case / "none").exists()


def test_explain_speaks_json(case: Path) -> None:
    done = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--explain", "--json", cwd=case)
    options = json.loads(done.stdout)["options"]
    assert {one["attack"] for one in options} == set(ATTACKS)
    assert [one["place"] for one in options[:3]] == [1, 2, None]


def test_a_run_that_can_be_watched_ends_as_done(case: Path) -> None:
    done = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--n", "5", "--out", "watched", "--quiet", cwd=case)
    assert done.returncode == 3
    state = json.loads((case / "watched" / "run.json").read_text())
    assert state["state"] == "done"
    assert state["headline"].startswith("Do not release: 5 of 5")


def test_a_named_attack_runs_alone_and_stages_go_to_stderr(case: Path) -> None:
    arguments = ["audit", "--trained", "pipe.skops", "--data", "train.csv", "--attack", "gauss-newton", "--out", "named"]
    done = exhume(*arguments, cwd=case)
    assert done.returncode == 3
    assert "attacking: gauss-newton (asked for)" in done.stderr
    assert "p / (d n) = 10" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "train.csv"], "--trained"),
        (["--trained", "pipe.skops", "--data", "absent.csv"], "not a file"),
        (["--trained", "pipe.skops", "--data", "nan.npz"], "NaN"),
        (["--trained", "pipe.skops", "--data", "train.csv", "--init", "pipe.skops"], "Leave --init out"),
        (["--trained", "pipe.skops", "--data", "train.csv", "--fail-above", "7"], "between 0 and 1"),
        (["--trained", "pipe.skops", "--data", "train.csv", "--attack", "gaus-newton"], "gauss-newton"),
        (["--trained", "pipe.skops", "--data", "train.csv", "--out", "/proc/none"], "cannot write"),
        (["--trained", "train.csv", "--data", "train.csv", "--model", "json:dumps"], "must be .safetensors"),
    ],
)
def test_misuse_is_one_line_with_the_remedy(arguments: list[str], words: str, case: Path) -> None:
    np.savez(case / "nan.npz", X=np.full((3, 30), np.nan), y=np.arange(3))
    done = exhume("audit", *arguments, cwd=case)
    assert done.returncode == 2, (arguments, done.stderr)
    assert words in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr
