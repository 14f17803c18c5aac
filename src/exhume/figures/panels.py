"""Panels of figures: curves with their thresholds and chance level, pictures truth over rebuilt, tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from exhume.figures.sheet import PANEL_HEIGHT, Results
from exhume.lab.job import Job
from exhume.report.palette import GREY, INK, RED

# An axis that spans less than this factor gets a tick at every point, since powers of ten would label too little of it.
_FEW_DECADES = 30
# Share of an axis that the label of a tick takes.
_LABEL_SHARE = 0.12
# A legend of more lines than this has two columns.
_LONG_LEGEND = 5

# At every x, jobs that differ by their seed.
Points = tuple[tuple[float, tuple[Job, ...]], ...]


@dataclass(frozen=True)
class Line:
    """One curve: at each x the mean and spread of a field over jobs that differ by their seed."""

    label: str
    field: str
    points: Points
    colour: str = RED
    style: str = "-"
    marker: str = "o"

    def values(self, results: Results) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, mean and standard deviation where at least one seed is stored."""
        found = []
        for x, jobs in self.points:
            seen = [row[self.field] for row in results.rows(jobs) if row.get(self.field) is not None]
            if seen:
                found.append((x, float(np.mean(seen)), float(np.std(seen))))
        return tuple(np.array(column) for column in zip(*found, strict=True)) if found else (np.array([]),) * 3  # type: ignore[return-value]


def _legible(xs: list[float], least: float) -> list[float]:
    """Those of the values whose labels do not run into each other on a logarithmic axis that begins at `least`."""
    room = _LABEL_SHARE * np.log(xs[-1] / least)
    shown: list[float] = []
    for x in reversed(xs):
        if not shown or np.log(shown[-1] / x) >= room:
            shown.append(x)
    return shown[::-1]


@dataclass(frozen=True)
class Curves:
    """Curves against p, with the thresholds p = n and p = dn and the chance level."""

    title: str
    lines: tuple[Line, ...]
    n: int | None = None
    d: int | None = None
    xlabel: str = "parameters p of the last layer"
    ylabel: str = "error"
    top: float | None = 2.0  # room for the legend above the chance level
    log: bool = False
    width: float = 4.8
    height: float = PANEL_HEIGHT
    chance: str | None = "chance"  # field of the chance level

    def jobs(self) -> list[Job]:
        """Jobs of all curves."""
        return [job for line in self.lines for _, jobs in line.points for job in jobs]

    def draw(self, canvas: Any, results: Results) -> None:
        """Mean as a line, one standard deviation as a band."""
        axes = canvas.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xscale("log")
        for line in self.lines:
            x, mean, spread = line.values(results)
            if len(x) == 0:
                continue
            axes.plot(x, mean, line.style, color=line.colour, marker=line.marker, ms=3.5, lw=1.5, label=line.label)
            low = np.maximum(mean - spread, mean / 10) if self.log else mean - spread
            axes.fill_between(x, low, mean + spread, color=line.colour, alpha=0.15, lw=0)
        xs = sorted({x for line in self.lines for x, _ in line.points})
        if xs[-1] / xs[0] < _FEW_DECADES:  # powers of ten would label too little, and their parts too much
            shown = _legible(xs, min(xs[0], self.n or xs[0]))
            axes.set_xticks(shown, [f"{x:g}" for x in shown])
            axes.minorticks_off()
        if self.log:
            axes.set_yscale("log")
        elif self.top is not None:
            axes.set_ylim(-0.04, self.top)
        for mark, text in ((self.n, "p = n"), (self.n and self.d and self.n * self.d, "p = dn")):
            if mark:
                axes.axvline(mark, color=GREY, lw=1, ls=":")
                axes.text(mark, 1.01, text, color=INK, fontsize=8, ha="center", transform=axes.get_xaxis_transform())
        self._draw_chance(axes, results)
        axes.set_title(self.title, fontsize=9.5, pad=16)
        axes.set_xlabel(self.xlabel)
        axes.set_ylabel(self.ylabel)
        if axes.get_legend_handles_labels()[0]:  # a panel without rows has nothing to name
            axes.legend(frameon=False, fontsize=7.5, loc="best", ncols=2 if len(self.lines) > _LONG_LEGEND else 1)

    def _draw_chance(self, axes: Any, results: Results) -> None:
        if self.chance is None:
            return
        seen = [row[self.chance] for job in self.jobs() if (row := results.row(job)) and row.get(self.chance) is not None]
        if seen:
            level = float(np.mean(seen))
            axes.axhline(level, color=GREY, lw=1, ls="--")
            axes.text(0.995, level, "chance", color=GREY, fontsize=8, ha="right", va="bottom", transform=axes.get_yaxis_transform())


@dataclass(frozen=True)
class Pictures:
    """Truth over reconstruction, pair after pair; `every` shows all that was found instead, matched or not."""

    title: str
    job: Job
    count: int = 20
    every: bool = False
    per_line: int = 10

    @property
    def lines(self) -> int:
        """Lines of pictures."""
        return -(-self.count // self.per_line) * (1 if self.every else 2)

    @property
    def width(self) -> float:
        """Inches."""
        return 0.5 * self.per_line + 0.9

    @property
    def height(self) -> float:
        """Inches."""
        return 0.52 * self.lines + 0.6

    def jobs(self) -> list[Job]:
        """The one job."""
        return [self.job]

    def draw(self, canvas: Any, results: Results) -> None:
        """Stored pictures."""
        kept, row = results.tensors(self.job), results.row(self.job)
        names = ["all_pictures"] if self.every else ["truth_pictures", "rebuilt_pictures"]
        title = self.title
        if row is not None:
            title += f"\nρ = {row['rho']:.2g} (chance {row['chance']:.2g}), {row['n_found']} rows found of {row['n_true']}"
        canvas.suptitle(title if kept else f"{self.title}\n(not finished)", fontsize=8.5)
        grid = canvas.subplots(self.lines, self.per_line, squeeze=False, gridspec_kw={"wspace": 0.04, "hspace": 0.04})
        for axes in grid.flat:
            axes.axis("off")
        for k, name in enumerate(names):
            for i, picture in enumerate(kept.get(name, [])[: self.count]):
                line, column = divmod(i, self.per_line)
                axes = grid[len(names) * line + k, column]
                pixels, single = picture.numpy(), picture.shape[-1] == 1
                axes.imshow(pixels[..., 0] if single else pixels, cmap="gray" if single else None, vmin=0, vmax=255)
            if not self.every:
                for line in range(k, self.lines, 2):
                    text, colour = (("truth", INK), ("rebuilt", RED))[k]
                    grid[line, 0].text(
                        -0.15, 0.5, text, color=colour, fontsize=7, ha="right", va="center", transform=grid[line, 0].transAxes
                    )


@dataclass(frozen=True)
class Table:
    """A table whose cells are read from stored rows."""

    title: str
    header: tuple[str, ...]
    lines: tuple[tuple[str, Callable[[Results], list[str]]], ...]  # name of the line, its cells
    needed: tuple[Job, ...]
    width: float = 9.5

    @property
    def height(self) -> float:
        """Inches."""
        return 0.32 * (len(self.lines) + 1) + 0.5

    def jobs(self) -> list[Job]:
        """The jobs that the cells are read from."""
        return list(self.needed)

    def draw(self, canvas: Any, results: Results) -> None:
        """The table as text."""
        axes = canvas.add_subplot()
        axes.axis("off")
        axes.set_title(self.title, fontsize=9.5)
        cells = [[name, *make(results)] for name, make in self.lines]
        table = axes.table(cellText=cells, colLabels=self.header, loc="center", cellLoc="left", edges="horizontal")
        table.auto_set_font_size(False)
        table.set_fontsize(8.5)
        table.auto_set_column_width(list(range(len(self.header))))
        table.scale(1, 1.4)
