"""Snapshots of a run: few, evenly spread, of the attempt that led to the end."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks import Progress
from exhume.report.snapshots import Recorder


def now(step: int, attempt: int = 0, X: torch.Tensor | None = None) -> Progress:
    return Progress("search", step, 0.5**step, 1, step, 0.0, None, torch.full((1, 2), float(step)) if X is None else X, attempt)


def recorded(steps: int) -> Recorder:
    recorder = Recorder()
    for step in range(steps):
        recorder(now(step))
    return recorder


def test_short_runs_are_kept_whole() -> None:
    kept = recorded(64).snapshots
    assert [one.step for one in kept] == list(range(64))
    assert all(one.loss == 0.5**one.step and one.X.tolist() == [[one.step, one.step]] for one in kept)


@pytest.mark.parametrize(("steps", "every"), [(65, 2), (128, 2), (129, 4), (1000, 16)])
def test_long_runs_are_thinned_evenly(steps: int, every: int) -> None:
    kept = [one.step for one in recorded(steps).snapshots]
    assert kept == list(range(0, steps, every))
    assert len(kept) <= 64


def test_a_new_attempt_begins_a_new_film() -> None:
    recorder = recorded(200)
    for step in range(3):
        recorder(now(step, attempt=1))
    assert [one.step for one in recorder.snapshots] == [0, 1, 2]


def test_a_snapshot_does_not_change_with_the_rows() -> None:
    X, recorder = torch.zeros(1, 2), Recorder()
    recorder(now(0, X=X))
    X += 1
    assert recorder.snapshots[0].X.tolist() == [[0.0, 0.0]]


def test_frames_are_few_with_the_first_and_the_last() -> None:
    assert [one.step for one in recorded(50).frames(3)] == [0, 24, 49]
    assert [one.step for one in recorded(2).frames(3)] == [0, 1]
    assert Recorder().frames(3) == []
