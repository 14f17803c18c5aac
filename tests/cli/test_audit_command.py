"""`exhume audit`, `mitigate`, `watch` and `law --trained` as a person meets them, and the examples as they stand."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.command_line import exhume
from support.models import patients, relu_pipeline

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline, its patients in a CSV whose column names are hostile, and others."""
    io = pytest.importorskip("skops.io", reason="skops is not installed: pip install 'exhume[sklearn]'")
    folder = tmp_path_factory.mktemp("case")
    model, X, y = relu_pipeline(10)
    io.dump(model, folder / "pipe.skops")
    for name, rows, labels in (("train.csv", X, y), ("test.csv", *patients(100, 200))):
        with open(folder / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["<script>alert(1)</script>", *(f"../c{i}" for i in range(29)), "label"])
            writer.writerows([*map(repr, map(float, row)), label] for row, label in zip(rows, labels, strict=True))
    return folder


def test_an_audit_ends_in_a_verdict_a_page_and_an_exit_code(case: Path) -> None:
    done = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--holdout", "test.csv", "--json", cwd=case)
    assert done.returncode == 3, done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"]["rebuilt"] == 10
    page = (case / "exhume-audit" / "index.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert {path.name for path in (case / "exhume-audit").iterdir()} == {"index.html", "report.json", "run.json"}
    bearable = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--fail-above", "1", "--out", "b", cwd=case)
    assert bearable.returncode == 0
    assert "Do not release" in bearable.stdout


def test_explain_and_law_run_no_attack(case: Path) -> None:
    told = exhume("audit", "--trained", "pipe.skops", "--data", "train.csv", "--explain", "--out", "none", cwd=case)
    assert told.returncode == 0
    assert "gauss-newton" in told.stdout
    assert not (case / "none").exists()
    law = json.loads(exhume("law", "--trained", "pipe.skops", "--data", "train.csv", "--json", cwd=case).stdout)
    assert law["ratio"] == pytest.approx(10)
    assert law["interpolates"]


def test_misuse_is_one_line_with_the_remedy(case: Path) -> None:
    np.savez(case / "nan.npz", X=np.full((3, 30), np.nan), y=np.arange(3))
    audit = ["audit", "--trained", "pipe.skops", "--data"]
    for arguments, words in (
        (["audit", "--data", "train.csv"], "--trained"),
        ([*audit, "absent.csv"], "not a file"),
        ([*audit, "nan.npz"], "NaN"),
        ([*audit, "train.csv", "--init", "pipe.skops"], "Leave --init out"),
        ([*audit, "train.csv", "--fail-above", "7"], "between 0 and 1"),
        ([*audit, "train.csv", "--attack", "gaus-newton"], "gauss-newton"),
        ([*audit, "train.csv", "--out", "/proc/none"], "cannot write"),
        (["audit", "--trained", "train.csv", "--data", "train.csv", "--model", "json:dumps"], "must be .safetensors"),
        (["mitigate", "--trained", "pipe.skops", "--data", "train.csv", "--checkpoint", "c"], "no checkpoint"),
        (["watch", "absent"], "not a folder"),
        (["law", "--p", "10"], "--d and --n"),
    ):
        done = exhume(*arguments, cwd=case)
        assert done.returncode == 2, (arguments, done.stderr)
        assert words in done.stderr
        assert done.stderr.strip().count("\n") == 0
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_examples_run_as_they_stand(example: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / example)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout
