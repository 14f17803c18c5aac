"""`exhume mitigate`: what would stop the attack, and what it costs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exhume.auditing.mitigation.steps import Skipped, Step, steps_for
from support.command_line import exhume


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all steps two prunings and the one that does not fit: the whole ladder has its test in contract/test_audit.py."""

    def few(*arguments: Any) -> Iterator[Step | Skipped]:
        return (one for one in steps_for(*arguments) if one.step in ("pruning", "withholding theta_0"))

    monkeypatch.setattr("exhume.auditing.mitigation.ladder.steps_for", few)


@pytest.mark.usefixtures("two_steps")
def test_the_ladder_is_told_as_json_and_on_a_page(case: Path) -> None:
    arguments = ["mitigate", "--trained", "pipe.skops", "--data", "train.csv", "--holdout", "test.csv", "--out", "ladder"]
    done = exhume(*arguments, "--json", cwd=case)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert [(one["setting"], one["rebuilt"]) for one in row["rungs"]] == [
        ("", 5),
        ("50% of the features", 5),
        ("90% of the features", 0),
    ]
    assert row["cheapest"] == "pruning, 90% of the features"
    assert row["skipped"] == [{"step": "withholding theta_0", "why": "there is none to withhold"}]
    assert {path.name for path in (case / "ladder").iterdir()} == {"index.html", "ladder.json", "run.json"}
    assert "<script" not in (case / "ladder" / "index.html").read_text()


@pytest.mark.usefixtures("two_steps")
def test_a_person_reads_every_rung_as_it_ends_and_the_cheapest_at_last(case: Path) -> None:
    done = exhume("mitigate", "--trained", "pipe.skops", "--data", "train.csv", "--out", "told", cwd=case)
    rungs = [line for line in done.stderr.splitlines() if " rebuilt, error " in line]
    assert [line.split("  ")[0] for line in rungs] == ["as it is", "pruning 50% of the features", "pruning 90% of the features"]
    told = " ".join(done.stdout.split())
    assert "The cheapest step that stops the attack: pruning, 90% of the features" in told
    assert "not run withholding theta_0: there is none to withhold" in told
    assert json.loads((case / "told" / "run.json").read_text())["stage"] == "done"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--checkpoint", "c"], "no checkpoint"),
        (["--bearable", "1"], "--bearable is a share between 0 and 1, got 1.0."),
        (["--bearable", "-0.1"], "--bearable is a share between 0 and 1"),
        (["--out", "/proc/none"], "cannot write"),
    ],
)
def test_misuse_is_one_line_with_the_remedy(arguments: list[str], words: str, case: Path) -> None:
    done = exhume("mitigate", "--trained", "pipe.skops", "--data", "train.csv", *arguments, cwd=case)
    assert done.returncode == 2, (arguments, done.stderr)
    assert words in done.stderr
    assert done.stderr.strip().count("\n") == 0
    assert "Traceback" not in done.stderr
