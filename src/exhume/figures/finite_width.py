"""Paper 2 (finite-width guarantees): error against width by intrinsic dimension, subspace against full space, the PAC claim."""

from __future__ import annotations

from exhume.figures.panels import Curves, Line, Points
from exhume.figures.sheet import Figure, Panel
from exhume.figures.success_rates import SuccessRates
from exhume.figures.trials import network, ours, points, sphere
from exhume.lab.job import TrialJob
from exhume.report.palette import BLUE, PAPER, RED

_SHADES = ("#a6c8f0", "#4a90d9", "#1f5fa8", "#0b2e59")


def _shape(scale: str) -> tuple[int, int, int, tuple[int, ...], range]:
    """d, n, outputs, intrinsic dimensions, seeds; n samples span at most n dimensions, so n must exceed the smaller r."""
    return (40, 16, 4, (4, 8, 40), range(3)) if scale == "quick" else (100, 50, 10, (5, 10, 20, 100), range(10))


def _widths(scale: str) -> tuple[int, ...]:
    return (20, 40, 80, 160, 320) if scale == "quick" else (25, 50, 100, 200, 400, 800, 1600)


def _sweep(scale: str, rank: int, attack: str, seeds: range | None = None) -> Points:
    d, n, k, _, few = _shape(scale)

    def trial(width: float, seed: int) -> TrialJob:
        return network(sphere(d, n, seed, rank), "two-layer", k, width * k / (d * n), seed, attack, scale=scale)

    return points(trial, _widths(scale), seeds or few)


def _by_rank(scale: str) -> list[Panel]:
    d, n, k, ranks, _ = _shape(scale)
    lines = [Line(f"r = {r}", "rho", _sweep(scale, r, "subspace"), c) for r, c in zip(ranks, _SHADES, strict=False)]
    title = f"two-layer, subspace attack, d = {d}, n = {n}, {k} outputs"
    return [Curves(title, tuple(lines), xlabel="width", ylabel="reconstruction error ρ", width=6)]


def _against_full(scale: str) -> list[Panel]:
    d, n, k, ranks, _ = _shape(scale)
    return [
        Curves(
            f"intrinsic dimension r = {rank}, d = {d}, n = {n}, {k} outputs",
            (
                Line("subspace of the first layer's change", "rho", _sweep(scale, rank, "subspace"), BLUE),
                Line("full space, gauss-newton", "rho", _sweep(scale, rank, "gauss-newton"), RED, "--", "s"),
                Line("full space, projection-gd (told n)", "rho", _sweep(scale, rank, "projection-gd"), PAPER, ":", "^"),
            ),
            xlabel="width",
            ylabel="reconstruction error ρ",
        )
        for rank in (ranks[0], ranks[-1])
    ]


def _pac(scale: str) -> list[Panel]:
    _, _, _, ranks, _ = _shape(scale)
    d, n = (40, 8) if scale == "quick" else (100, 20)
    seeds = range(20 if scale == "quick" else 100)
    widths = tuple(round(r * d * n) for r in (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5))
    lines = [("random features, gauss-newton", RED, points(lambda p, s: ours(sphere(d, n, s), int(p), s), widths, seeds))]
    panels: list[Panel] = [
        SuccessRates(f"random features, d = {d}, n = {n}, {len(seeds)} seeds", tuple(lines), "width p", float(d * n))
    ]
    few = range(6 if scale == "quick" else 50)
    lines = [
        (f"r = {rank}", colour, _sweep(scale, rank, "subspace", few)) for rank, colour in zip(ranks, _SHADES[1:], strict=False)
    ]
    panels.append(SuccessRates(f"two-layer, subspace, {len(few)} seeds", tuple(lines), "width", None))
    return panels


FIGURES = [
    Figure(
        "paper2-width",
        "error against width for several intrinsic dimensions r",
        "When the data lie in a subspace of r dimensions, the width that is needed depends on r, not on d.",
        _by_rank,
        departs="d = 40, n = 16, 3 seeds.",
    ),
    Figure(
        "paper2-subspace",
        "searching the subspace of the first layer's change against the full space",
        "The subspace attack needs less width; the advantage grows as r falls below d.",
        _against_full,
        departs="d = 40, n = 16, 3 seeds; projection-gd is stopped after 2000 steps.",
    ),
    Figure(
        "paper2-pac",
        "probability of success against width",
        "Beyond a width that the theory bounds, reconstruction succeeds with high probability.",
        _pac,
        departs="d = 40; n = 8 with 20 seeds (random features), n = 16 with 6 (two-layer).",
    ),
]
