"""Beyond the paper: the law's constant measured, and the samples leaving the bulk of a spectrum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from exhume.figures.panels import Points
from exhume.figures.sheet import Figure, Panel, Results
from exhume.figures.success_rates import SuccessRates
from exhume.figures.trials import PAPER_STEPS, ours, papers, points, sphere
from exhume.lab.job import Job
from exhume.lab.spectrum import SpectrumJob
from exhume.report.palette import BLUE, GREY, INK, PAPER, RED

# p / (d n) of the points, where each attack goes from failing to succeeding.
_OUR_RATIOS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
_THEIR_RATIOS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0)


def _transition(scale: str) -> list[Panel]:
    quick = scale == "quick"
    shapes = ((100, 20, 10), (30, 10, 5), (50, 20, 5)) if quick else ((100, 20, 20), (30, 20, 20), (100, 50, 10), (200, 20, 10))
    steps = 3000 if quick else PAPER_STEPS
    panels: list[Panel] = []
    for d, n, count in shapes:
        theirs = _THEIR_RATIOS if (d, n) == (100, 20) or not quick else _THEIR_RATIOS[::2]
        lines = (
            (
                "gauss-newton (n unknown)", RED,
                points(lambda r, s, d=d, n=n: ours(sphere(d, n, s), round(r * d * n), s), _OUR_RATIOS, range(count)),  # type: ignore[misc]
            ),
            (
                f"projection-gd (n told, {steps} steps)", PAPER,
                points(lambda r, s, d=d, n=n: papers(sphere(d, n, s), round(r * d * n), s, steps=steps), theirs, range(count)),  # type: ignore[misc]
            ),
        )  # fmt: skip
        panels.append(SuccessRates(f"sphere, d = {d}, n = {n}, {count} seeds", lines))
    return panels


@dataclass(frozen=True)
class Spectra:
    """Eigenvalues of the moment matrix against p: bulk in grey, what left it in red."""

    title: str
    n: int
    at: Points
    width: float = 7.0
    height: float = 3.6

    def jobs(self) -> list[Job]:
        """All jobs."""
        return [job for _, jobs in self.at for job in jobs]

    def draw(self, canvas: Any, results: Results) -> None:
        """One column of dots per p."""
        axes, counts = canvas.subplots(1, 2, width_ratios=[1.6, 1])
        outside = []
        for x, jobs in self.at:
            values = results.tensors(jobs[0]).get("eigenvalues")
            if values is None:
                continue
            size = values.abs().numpy()
            out = size > 1
            axes.plot(np.full((~out).sum(), x), size[~out], ".", ms=2, color=GREY)
            axes.plot(np.full(out.sum(), x), size[out], "o", ms=3, color=RED)
            seen = [row["outside"] for row in results.rows(jobs)]
            outside.append((x, float(np.mean(seen)), float(np.std(seen))))
        for ax in (axes, counts):
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xscale("log")
            ax.axvline(1.0, color=GREY, ls=":", lw=1)
            ax.set_xlabel("p / (d n)")
        axes.text(1.0, 1.01, "p = dn", fontsize=8, ha="center", transform=axes.get_xaxis_transform())
        axes.axhline(1.0, color=BLUE, lw=1, ls="--")
        axes.text(self.at[0][0], 1.08, "edge of the bulk", fontsize=8, color=BLUE, va="bottom")
        axes.set_ylabel("|eigenvalue| / edge of the bulk")
        axes.set_title(self.title, fontsize=9.5, pad=16)
        if outside:
            at, mean, spread = map(np.array, zip(*outside, strict=True))
            counts.errorbar(at, mean, spread, color=RED, marker="o", ms=3, lw=1.2, capsize=2)
        counts.axhline(self.n, color=INK, ls="--", lw=1)
        counts.text(self.at[0][0], self.n, f"n = {self.n}", fontsize=8, va="bottom")
        counts.set_ylim(-0.5, self.n * 1.15)
        counts.set_ylabel("eigenvalues outside")


def _spectrum(scale: str) -> list[Panel]:
    ratios = tuple(2.0**k for k in range(-6, 7 if scale == "quick" else 9))
    seeds = range(3 if scale == "quick" else 10)
    shapes = ((100, 20), (50, 20)) if scale == "quick" else ((100, 20), (100, 100), (400, 20))
    return [
        Spectra(
            f"sphere, d = {d}, n = {n}", n,
            points(lambda r, s, d=d, n=n: SpectrumJob(sphere(d, n, s), r, seed=s), ratios, seeds),  # type: ignore[misc]
        )
        for d, n in shapes
    ]  # fmt: skip


FIGURES = [
    Figure(
        "transition",
        "the law's constant, measured: share of seeds recovered against p / (d n)",
        "The paper states p of order dn; this is the constant for either attack.",
        _transition,
        departs="(100, 20) with 10 seeds, two smaller shapes with 5; projection-gd is stopped after 3000 steps.",
    ),
    Figure(
        "spectrum",
        "eigenvalues of the weights' second moment leave the bulk as p grows past dn",
        "Not in the paper: why a spectral start is possible at all, and how n shows.",
        _spectrum,
        departs="3 seeds.",
    ),
]
