"""Figures 11, 12, 15 and 16: step sizes, a wrong n, ridge, pruning."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from exhume.attacks import GaussNewton, attack_named
from exhume.data import DataRequest
from exhume.figures.panels import Curves, Line, Pictures
from exhume.figures.sheet import Figure, Panel
from exhume.figures.trials import PAPER_STEPS, QUICK_STEPS, ours, papers, points, sizes, sphere
from exhume.knowledge import Knowledge
from exhume.lab.job import TrialJob
from exhume.lab.trial import Trial
from exhume.report.palette import BLUE

_SHADES = ("#f4a99b", "#e26d5a", "#c0392b", "#8e2018", "#4d0f0a")


def _fig11(scale: str) -> list[Panel]:
    quick = scale == "quick"
    data = DataRequest("cifar10", n=10, size=8) if quick else DataRequest("cifar10", n=20)
    n, d = (10, 192) if quick else (20, 3072)
    base, steps, seeds = (100.0, QUICK_STEPS["photographs"], range(2)) if quick else (2e3, PAPER_STEPS, range(10))
    ps = [round(r * d * n) for r in ((0.3, 1, 4) if quick else (0.1, 0.3, 1, 2, 4, 10))]

    def trial(p: float, seed: int, factor: float) -> TrialJob:
        attack = attack_named("projection-gd", max_steps=steps, step_size=factor * base)
        return TrialJob(
            Trial(data, p=int(p), seed=seed, knowledge=Knowledge(n=True), dtype="float32", allow_underfit=True, attack=attack)
        )

    panels: list[Panel] = []
    mine = points(lambda p, seed: ours(data, int(p), seed, dtype="float32"), ps, seeds)
    shown = (("rho_direction", "error of directions", False), ("passes", "GEMM passes", True), ("loss", "loss", True))
    for field, label, log in shown:
        lines = [
            Line(f"step {factor:g} x {base:g}", field, points(lambda p, s, f=factor: trial(p, s, f), ps, seeds), shade)  # type: ignore[misc]
            for factor, shade in zip((0.25, 0.5, 1.0, 2.0, 4.0), _SHADES, strict=True)
        ]
        lines.append(Line("gauss-newton (no step size)", field, mine, BLUE, "--", "s"))
        title = f"{label}, n = {n}, d = {d}"
        panels.append(Curves(title, tuple(lines), n, d, ylabel=label, log=log, chance=None if log else "chance"))
    return panels


def _fig12(scale: str) -> list[Panel]:
    quick = scale == "quick"
    n, d = (10, 192) if quick else (50, 3072)
    data = DataRequest("cifar10", n=n, size=8) if quick else DataRequest("cifar10", n=n)
    steps, p = QUICK_STEPS["photographs"] if quick else PAPER_STEPS, 10 * d * n
    panels: list[Panel] = []
    for rows in (round(0.8 * n), round(1.2 * n)):
        theirs = papers(data, p, 0, steps=steps, keep=True, rows=rows)
        panels.append(Pictures(f"projection-gd told {rows} rows", theirs, count=rows, every=True, per_line=12))
        told = ours(data, p, 0, keep=True, dtype="float32")
        told = replace(told, trial=replace(told.trial, attack=GaussNewton(rows=rows)))
        panels.append(Pictures(f"gauss-newton told {rows} rows", told, count=rows, every=True, per_line=12))
    panels.append(Pictures("gauss-newton, not told", ours(data, p, 0, keep=True, dtype="float32"), count=n, per_line=12))
    return panels


def _swept(title: str, shape: tuple[int, int], scale: str, field: str, values: tuple[float, ...], name: str) -> list[Panel]:
    """Curves of both attacks for several values of one setting of the victim."""
    d, n = shape
    seeds, steps = (range(2), QUICK_STEPS["sphere"]) if scale == "quick" else (range(10), PAPER_STEPS)
    ps = sizes(d, n, (0.3, 1, 1.5, 2, 3, 5, 10))
    panels: list[Panel] = []
    for attack in ("gauss-newton (ours)", "projection-gd (paper)"):
        lines = []
        mine = attack.startswith("gauss")
        for value, shade in zip(values, _SHADES[::-2], strict=True):
            setting: dict[str, Any] = {field: value}

            def trial(p: float, seed: int, setting: dict[str, Any] = setting, mine: bool = mine) -> TrialJob:
                data = sphere(d, n, seed)
                return ours(data, int(p), seed, **setting) if mine else papers(data, int(p), seed, steps=steps, **setting)

            pruned = field == "prune" and value > 0  # enough must be left to fit the labels
            least = d * n if not mine else 6 * n if pruned else 0
            chosen = [p for p in ps if p >= least]
            at = points(trial, chosen, seeds)
            lines.append(Line(f"{name} = {value:g}", "rho", at, shade))
            if mine:
                lines.append(Line(f"training error, {value:g}", "train_loss", at, shade, ":", "."))
        panels.append(Curves(f"{title}, {attack}, d = {d}, n = {n}", tuple(lines), n, d))
    return panels


def _shapes(scale: str) -> tuple[tuple[int, int], ...]:
    return ((30, 20),) if scale == "quick" else ((30, 20), (100, 100))


def _fig15(scale: str) -> list[Panel]:
    return [panel for shape in _shapes(scale) for panel in _swept("ridge", shape, scale, "ridge", (0.0, 0.1, 10.0), "λ")]


def _fig16(scale: str) -> list[Panel]:
    return [panel for shape in _shapes(scale) for panel in _swept("pruned", shape, scale, "prune", (0.0, 0.5, 0.75), "removed")]


FIGURES = [
    Figure(
        "fig11",
        "the paper's attack depends on its step size; ours has none",
        "Every step size that converges rebuilds the data from p of order dn; larger ones oscillate.",
        _fig11,
        ("cifar10",),
        departs="n = 10 images of 8x8 pixels, 2 seeds, 1000 steps; the base step is 100 (2000 in the paper, at d = 3072).",
    ),
    Figure(
        "fig12",
        "told a wrong n, or not told",
        "With too few rows images blend; with too many, the extra ones repeat samples.",
        _fig12,
        ("cifar10",),
        departs="n = 10 images of 8x8 pixels; projection-gd is stopped after 1000 steps.",
    ),
    Figure(
        "fig15",
        "ridge regularisation does not protect",
        "Even for large lambda the threshold is about the same.",
        _fig15,
        departs="(d, n) = (30, 20), 2 seeds; projection-gd is drawn from p = dn and stopped after 2000 steps.",
    ),
    Figure(
        "fig16",
        "pruning (Optimal Brain Surgeon) moves the threshold",
        "Pruned models need more parameters before their data can be rebuilt.",
        _fig16,
        departs="(d, n) = (30, 20), 2 seeds; projection-gd is drawn from p = dn and stopped after 2000 steps.",
    ),
]
