"""Stores of rows made by hand, canvases to draw them on, and what the jobs of a figure amount to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure as Canvas

from exhume.data.registry import shape_of
from exhume.figures import FIGURES
from exhume.figures.sheet import Panel, Results
from exhume.lab.job import Job, TrialJob, key_of
from exhume.lab.store import Store
from exhume.lab.trial import Trial


def keep(store: Store, job: Job, row: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None, seconds: float = 1.0) -> None:
    """Put a row made by hand into the store as that of a job."""
    provenance = {"wall_seconds": seconds, "began": "2026-01-01T00:00:00+00:00"}
    record = {"kind": job.kind, "settings": job.settings(), "row": row, "provenance": provenance}
    store.put(key_of(job), record, tensors or {})


def drawn(panel: Panel, store: Store) -> list[Any]:
    """The axes of a panel, drawn from a store."""
    canvas = Canvas(figsize=(panel.width, panel.height))
    panel.draw(canvas, Results(store))
    return canvas.axes


def line_named(axes: Any, label: str) -> Any:
    """The curve of that label."""
    (line,) = [one for one in axes.lines if one.get_label() == label]
    return line


def upright(axes: Any) -> list[float]:
    """Where vertical lines across the whole axes stand."""
    return [float(one.get_xdata()[0]) for one in axes.lines if list(one.get_ydata()) == [0, 1]]


def level(axes: Any) -> list[float]:
    """Where horizontal lines across the whole axes lie."""
    return [float(one.get_ydata()[0]) for one in axes.lines if list(one.get_xdata()) == [0, 1]]


def words(axes: Any) -> list[str]:
    """Texts inside and above the axes."""
    return [one.get_text() for one in axes.texts]


@dataclass(frozen=True)
class Amount:
    """What a figure's trials amount to."""

    shapes: set[tuple[int, int]]  # (d, n)
    seeds: set[int]
    attacks: set[str]
    steps: set[int]  # of projection-gd


def trials_of(name: str, scale: str, attack: str | None = None) -> list[Trial]:
    """The trials of a figure, those of one attack where it is named."""
    found = [job.trial for job in FIGURES[name].jobs(scale) if isinstance(job, TrialJob)]
    return [trial for trial in found if attack is None or trial.attack.name == attack]


def amount(name: str, scale: str) -> Amount:
    """Shapes, seeds, attacks and steps of a figure."""
    trials = trials_of(name, scale)
    return Amount(
        {shape_of(trial.data) for trial in trials},
        {trial.seed for trial in trials},
        {trial.attack.name for trial in trials},
        {trial.attack.max_steps for trial in trials if trial.attack.name == "projection-gd"},  # type: ignore[attr-defined]
    )


def ratio(trial: Trial) -> float:
    """p / (d n) of a trial."""
    d, n = shape_of(trial.data)
    return trial.p / (d * n) if trial.p is not None else trial.ratio or 0.0


def titles_are_true(name: str, scale: str) -> bool:
    """Whether every panel's title names the d and n of the panel's own trials; at least one panel names them."""
    named = 0
    for panel in FIGURES[name].panels(scale):
        shapes = {shape_of(job.trial.data) for job in panel.jobs() if isinstance(job, TrialJob)}
        for symbol, index in (("d", 0), ("n", 1)):
            told = re.search(rf"\b{symbol} = (\d+)", getattr(panel, "title", ""))
            if told and shapes:
                assert {shape[index] for shape in shapes} == {int(told[1])}, (name, scale, panel)
                named += 1
        if getattr(panel, "n", None) is not None and shapes:
            assert {(panel.d, panel.n)} == shapes, (name, scale, panel)  # type: ignore[attr-defined]
    return named > 0
