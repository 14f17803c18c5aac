"""A run that can be watched: how it ends is written, whatever ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from exhume.attacks import Progress
from exhume.cli.live_session import live_session
from support.audit_cases import pipeline_case


def state(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def test_a_run_goes_from_running_to_done_with_its_headline(tmp_path: Path) -> None:
    with live_session(tmp_path, pipeline_case()[0], quiet=True) as session:
        assert state(tmp_path)["state"] == "running"
        session.headline("a verdict")
    assert (state(tmp_path)["state"], state(tmp_path)["headline"]) == ("done", "a verdict")


@pytest.mark.parametrize(("error", "end"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed"), (SystemExit, "failed")])
def test_whatever_ends_a_run_is_written_and_goes_on(error: type[BaseException], end: str, tmp_path: Path) -> None:
    with pytest.raises(error), live_session(tmp_path, pipeline_case()[0], quiet=True):
        raise error
    assert state(tmp_path)["state"] == end


@pytest.mark.parametrize("quiet", [True, False])
def test_stages_go_to_the_page_and_to_the_terminal(quiet: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live_session(tmp_path, pipeline_case()[0], quiet=quiet) as session:
        session.stage("attacking")
        assert state(tmp_path)["stage"] == "attacking"
        session.note_stage("measured")
        assert state(tmp_path)["stage"] == "measured"  # for the page only
        session.say("a line")
    assert capsys.readouterr().err == ("" if quiet else "attacking\na line\n")


def test_steps_are_watched_on_the_page(tmp_path: Path) -> None:
    with live_session(tmp_path, pipeline_case()[0], quiet=True) as session:
        session.watch(Progress("search", 4, 0.25, 2, 9, 1.5, None, torch.empty(0)))
    assert state(tmp_path)["curve"] == [[1.5, 0.25, 2]]
