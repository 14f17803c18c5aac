"""`exhume law`: what to expect of a size, or of a model of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import exhume


def test_the_law_speaks_json() -> None:
    law = json.loads(exhume("law", "--ratio", "0.5", "--d", "100", "--n", "20", "--json").stdout)
    assert law["outcome"] == "impossible"
    assert not law["determined"]
    assert json.loads(exhume("law", "--p", "8000", "--d", "100", "--n", "20", "--json").stdout)["outcome"] == "expected"


def test_the_law_of_ones_own_model_runs_no_attack(case: Path) -> None:
    law = json.loads(exhume("law", "--trained", "pipe.skops", "--data", "train.csv", "--json", cwd=case).stdout)
    assert law["ratio"] == pytest.approx(10)
    assert law["interpolates"]


def test_a_person_reads_the_count_and_the_price() -> None:
    told = exhume("law", "--p", "8000", "--d", "100", "--n", "20").stdout
    for words in ("reconstruction is expected", "8000 / (100 x 20) = 4", "8000 equations, 2000 unknowns", "can be fitted (p >= n)"):
        assert words in told
    assert "0.0032 GB in float32" in told
    few = exhume("law", "--p", "10", "--d", "100", "--n", "20").stdout
    assert "cannot be fitted (p < n)" in few


def test_a_ratio_stands_for_p() -> None:
    by_ratio, by_p = (
        json.loads(exhume("law", *size, "--d", "30", "--n", "20", "--activation", "tanh", "--json").stdout)
        for size in (["--ratio", "2.5"], ["--p", "1500"])
    )
    assert by_ratio["p"] == 1500
    assert {k: v for k, v in by_ratio.items() if k not in ("seconds", "gemm_gflops")} == {
        k: v for k, v in by_p.items() if k not in ("seconds", "gemm_gflops")
    }


def test_a_person_reads_where_the_own_model_stands(case: Path) -> None:
    told = exhume("law", "--trained", "pipe.skops", "--data", "train.csv", cwd=case).stdout
    for words in ("1500 features of a RandomFeatureMap", "1500 / (30 x 5) = 10", "it interpolates", "directions carry 99%", "0.0%"):
        assert words in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--p", "10"], "--d and --n"),
        (["--p", "10", "--ratio", "2", "--d", "3", "--n", "3"], "give one of --p, --ratio and --widths."),
        (["--ratio", "0", "--d", "3", "--n", "3"], "--ratio must be a positive number, got 0.0."),
        (["--trained", "pipe.skops"], "the law needs the training data of --trained. Give --data."),
    ],
)
def test_misuse_is_one_line_with_the_remedy(arguments: list[str], words: str, case: Path) -> None:
    done = exhume("law", *arguments, cwd=case)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr
