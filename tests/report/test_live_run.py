"""The state of a run in its folder: what is written, and how often."""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from exhume.attacks import Progress
from exhume.auditing import Subject
from exhume.report import LiveRun
from support.audit_cases import network_case, pipeline_case


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a run sees; the first entry is now."""
    now = [100.0]
    monkeypatch.setattr("exhume.report.live_run.time.monotonic", lambda: now[0])
    return now


def state(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def progress(step: int, X: torch.Tensor | None = None) -> Progress:
    return Progress("search", step, 0.5**step, 3, 10 * step, 0.1 * step, 9.0, torch.empty(0) if X is None else X)


def test_a_run_is_announced_when_it_begins(tmp_path: Path) -> None:
    subject = pipeline_case()[0]
    LiveRun(tmp_path / "new", subject)
    found = state(tmp_path / "new")
    expected = {"name": subject.name, "about": subject.about, "kind": "table", "state": "running", "stage": "starting"}
    assert expected.items() <= found.items()
    assert found["pid"] == os.getpid()
    assert found["columns"] == list(subject.truth.columns[:8])


def test_the_state_is_renewed_once_a_second_and_the_curve_has_every_step(tmp_path: Path, clock: list[float]) -> None:
    live = LiveRun(tmp_path, pipeline_case()[0])
    for step in range(3):
        live(progress(step))
    assert "step" not in state(tmp_path)  # the beginning was written in the same second
    clock[0] += 1.0
    live(progress(3))
    expected = {"step": 3, "phase": "search", "loss": 0.125, "rows": 3, "passes": 30, "eta": 9.0}
    assert expected.items() <= state(tmp_path).items()
    clock[0] += 0.5
    live(progress(4))
    assert state(tmp_path)["step"] == 3
    live.ended("done", "a verdict")
    found = state(tmp_path)
    assert (found["state"], found["stage"], found["headline"]) == ("done", "done", "a verdict")
    assert [point[1] for point in found["curve"]] == [0.5**step for step in range(5)]


def test_a_long_curve_is_thinned(tmp_path: Path, clock: list[float]) -> None:
    live = LiveRun(tmp_path, pipeline_case()[0])
    for step in range(1000):
        live(progress(step))
    live.ended("done")
    curve = state(tmp_path)["curve"]
    assert 200 <= len(curve) <= 401
    assert curve[0] == [0.0, 1.0, 3]
    assert curve[-1][0] == pytest.approx(99.9, abs=0.5)


def test_a_stage_is_written_at_once(tmp_path: Path, clock: list[float]) -> None:
    live = LiveRun(tmp_path, pipeline_case()[0])
    live.stage("scoring")
    assert state(tmp_path)["stage"] == "scoring"


def shown(subject: Subject, X: torch.Tensor, folder: Path, clock: list[float]) -> dict[str, Any]:
    live = LiveRun(folder, subject)
    clock[0] += 1.0
    live(progress(0, X))
    return state(folder)


def test_candidates_are_shown_in_raw_units_at_the_mean_length(tmp_path: Path, clock: list[float]) -> None:
    subject = pipeline_case()[0]
    truth = subject.truth
    found = shown(subject, 7 * subject.rows_for(truth.rows), tmp_path, clock)
    mean = truth.rows.norm(dim=1).mean()
    raw = truth.raw(truth.rows * (mean / truth.rows.norm(dim=1, keepdim=True)))
    assert found["table"] == [[f"{value:.4g}" for value in row[:8]] for row in raw.tolist()]
    assert "pictures" not in found


def test_candidates_of_pictures_are_shown_as_pictures(tmp_path: Path, clock: list[float]) -> None:
    subject = network_case()
    truth = subject.truth
    found = shown(subject, subject.rows_for(truth.rows), tmp_path, clock)
    assert len(found["pictures"]) == 4
    mean = truth.rows.norm(dim=1).mean()
    expected = truth.pictures(truth.rows * (mean / truth.rows.norm(dim=1, keepdim=True)))
    for uri, picture in zip(found["pictures"], expected, strict=True):
        with Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))) as image:
            np.testing.assert_array_equal(np.asarray(image), (picture[..., 0] * 255).round().astype(np.uint8))


@pytest.mark.parametrize("X", [torch.empty(0), torch.ones(2, 3)])
def test_rows_of_another_shape_are_not_shown(X: torch.Tensor, tmp_path: Path, clock: list[float]) -> None:
    found = shown(pipeline_case()[0], X, tmp_path, clock)
    assert "table" not in found
    assert found["step"] == 0


def test_at_most_so_many_candidates_as_fit(tmp_path: Path, clock: list[float]) -> None:
    many = torch.ones(50, 30, dtype=torch.float64)
    assert len(shown(pipeline_case()[0], many, tmp_path, clock)["table"]) == 8
    pictures = torch.ones(50, 64, dtype=torch.float64)
    assert len(shown(network_case(), pictures, tmp_path / "b", clock)["pictures"]) == 20


def test_a_loss_that_is_no_number_is_null(tmp_path: Path, clock: list[float]) -> None:
    live = LiveRun(tmp_path, pipeline_case()[0])
    clock[0] += 1.0
    live(Progress("search", 0, float("inf"), 0, 0, 0.0, None, torch.empty(0)))
    assert state(tmp_path)["loss"] is None
