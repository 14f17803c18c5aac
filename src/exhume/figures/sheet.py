"""What a figure is made of: panels, each with the jobs it needs and a pure drawing of their stored rows."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from matplotlib.figure import Figure as Canvas

from exhume.lab.job import Job, key_of
from exhume.lab.store import Store

SCALES = ("quick", "paper")
PANEL_HEIGHT = 3.1


@dataclass(frozen=True)
class Results:
    """Stored rows of jobs; a job that is not finished has none."""

    store: Store

    def row(self, job: Job) -> dict[str, Any] | None:
        """The row of a job."""
        key = key_of(job)
        return self.store.record(key)["row"] if self.store.has(key) else None

    def rows(self, jobs: tuple[Job, ...]) -> list[dict[str, Any]]:
        """Rows of those jobs that are finished."""
        return [row for row in map(self.row, jobs) if row is not None]

    def tensors(self, job: Job) -> dict[str, torch.Tensor]:
        """Tensors of a job; none where it is not finished."""
        return self.store.tensors(key_of(job)) if self.store.has(key_of(job)) else {}


class Panel(Protocol):
    """One part of a figure."""

    @property
    def width(self) -> float:
        """Inches."""
        ...

    @property
    def height(self) -> float:
        """Inches."""
        ...

    def jobs(self) -> list[Job]:
        """All jobs that the panel draws."""
        ...

    def draw(self, canvas: Any, results: Results) -> None:
        """Draw stored rows; nothing is computed here."""
        ...


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, or beyond it: what it shows, what the paper says, and its panels at a scale."""

    name: str
    title: str
    claim: str  # what the paper states, in our words
    panels: Callable[[str], list[Panel]]
    data: tuple[str, ...] = ()  # sources that need files
    quick_data: tuple[str, ...] | None = None  # those of the quick scale, where they differ
    alone: bool = False  # jobs so large that one at a time takes the whole machine
    departs: str = ""  # how the quick scale differs from the paper's setting

    def sources(self, scale: str) -> tuple[str, ...]:
        """Sources that need files at this scale."""
        return self.quick_data if scale == "quick" and self.quick_data is not None else self.data

    def jobs(self, scale: str) -> list[Job]:
        """All jobs of the figure, each once."""
        return list({key_of(job): job for panel in self.panels(scale) for job in panel.jobs()}.values())


def draw(figure: Figure, scale: str, results: Results) -> Canvas:
    """The figure from stored rows: panels side by side, as many to a line as fit."""
    lines: list[list[Panel]] = [[]]
    for panel in figure.panels(scale):
        if lines[-1] and sum(p.width for p in lines[-1]) + panel.width > 15:
            lines.append([])
        lines[-1].append(panel)
    width = max(sum(panel.width for panel in line) for line in lines)
    heights = [max(panel.height for panel in line) for line in lines]
    canvas = Canvas(figsize=(width, sum(heights) + 0.5), layout="constrained")
    title = textwrap.fill(f"{figure.name}: {figure.title}", round(11 * width))
    canvas.suptitle(title, fontsize=11, x=0.01, ha="left")
    parts: Any = canvas.subfigures(len(lines), 1, height_ratios=heights, squeeze=False)
    for part, line in zip(parts[:, 0], lines, strict=True):
        widths = [panel.width for panel in line]
        spare = width - sum(widths)
        places = part.subfigures(
            1, len(line) + (spare > 0.5), width_ratios=[*widths, *([spare] if spare > 0.5 else [])], squeeze=False
        )
        for place, panel in zip(places[0], line, strict=False):
            panel.draw(place, results)
    return canvas
