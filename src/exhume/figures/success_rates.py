"""A panel of success rates: the share of seeds in which the data were recovered, with intervals and the point at one half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from exhume.figures.panels import Points
from exhume.figures.sheet import PANEL_HEIGHT, Results
from exhume.figures.statistics import threshold, threshold_interval, wilson
from exhume.lab.job import Job
from exhume.report.palette import GREY, INK

# A run has recovered the data when its error, signs forgiven, is below this. It is lenient for the sake of projection-gd, which
# seldom comes below 0.1; gauss-newton ends either near chance or at rounding, so that any bound gives it nearly the same curve.
RECOVERED = 0.5


@dataclass(frozen=True)
class SuccessRates:
    """Share of seeds in which the data were recovered, against x, with Wilson intervals and the point at one half."""

    title: str
    lines: tuple[tuple[str, str, Points], ...]  # label, colour, points
    xlabel: str = "p / (d n)"
    mark: float | None = 1.0  # where the law's count of equations and unknowns is even
    mark_text: str = "p = dn"
    within: float = RECOVERED  # the error below which a run has recovered the data
    width: float = 4.9
    height: float = PANEL_HEIGHT

    def jobs(self) -> list[Job]:
        """Jobs of all lines."""
        return [job for _, _, at in self.lines for _, jobs in at for job in jobs]

    def draw(self, canvas: Any, results: Results) -> None:
        """Shares, intervals, thresholds."""
        axes = canvas.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xscale("log")
        ticks = sorted({x for _, _, at in self.lines for x, _ in at})
        for under, (label, colour, at) in zip(range(len(self.lines) - 1, -1, -1), self.lines, strict=True):
            found = recoveries(results, at, self.within)
            if not found:
                continue
            half = half_point(results, at, self.within)
            text = label if half is None else f"{label}: half at {describe_half(half)}"
            xs = [x for x, _, _ in found]
            shares = [good / total for _, good, total in found]
            low, high = zip(*(wilson(good, total) for _, good, total in found), strict=True)
            # Lines that coincide stay visible: the lower ones are wider.
            axes.plot(xs, shares, "-o", color=colour, ms=4 + 1.5 * under, lw=1.5 + 0.8 * under, label=text)
            axes.vlines(xs, low, high, color=colour, lw=1, alpha=0.6)
        axes.axhline(0.5, color=GREY, lw=1, ls="--")
        if self.mark is not None:
            axes.axvline(self.mark, color=GREY, lw=1, ls=":")
            axes.text(self.mark, 1.01, self.mark_text, fontsize=8, ha="left", color=INK, transform=axes.get_xaxis_transform())
        shown = [t for i, t in enumerate(ticks) if i == 0 or t / ticks[i - 1] > 1.12]
        axes.set_xticks(shown, [f"{t:g}" for t in shown], fontsize=7.5)
        axes.minorticks_off()
        axes.set_ylim(-0.03, 1.42)  # room for the legend
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.set_title(self.title, fontsize=9.5, pad=16)
        axes.set_xlabel(self.xlabel)
        axes.set_ylabel(f"share of seeds with ρ below {self.within:g}")
        if axes.get_legend_handles_labels()[0]:  # a panel without rows has nothing to name
            axes.legend(frameon=False, fontsize=7.5, loc="upper left")


def recoveries(results: Results, at: Points, within: float = RECOVERED) -> list[tuple[float, int, int]]:
    """(x, recovered, run) where anything was run."""
    counted = [(x, [row["rho"] <= within for row in results.rows(jobs)]) for x, jobs in at]
    return [(x, sum(good), len(good)) for x, good in counted if good]


def half_point(
    results: Results, at: Points, within: float = RECOVERED
) -> tuple[float | None, tuple[float, float] | None, float, float] | None:
    """(threshold, its interval, smallest x, largest x); None where nothing was run."""
    rows = [(x, row["rho"] <= within, row["seed"]) for x, jobs in at for row in results.rows(jobs)]
    if not rows:
        return None
    ratios, good, seeds = (np.array(column) for column in zip(*rows, strict=True))
    return threshold(ratios, good), threshold_interval(ratios, good, seeds), float(ratios.min()), float(ratios.max())


def describe_half(half: tuple[float | None, tuple[float, float] | None, float, float]) -> str:
    """The threshold in words, its 95% interval with it."""
    at, interval, low, high = half
    if at is None:
        return f"no point in {low:g} to {high:g}"
    return f"{at:.3g}" + (f" ({interval[0]:.3g} to {interval[1]:.3g})" if interval else "")
