"""Figures 6-9, 13 and 17: networks trained by gradient descent, and classification losses."""

from __future__ import annotations

from functools import partial
from typing import Any

from exhume.data import DataRequest
from exhume.figures.panels import Curves, Line, Pictures, Points
from exhume.figures.random_features import sphere_curves
from exhume.figures.sheet import Figure, Panel
from exhume.figures.trials import (
    PAPER_STEPS,
    QUICK_STEPS,
    network,
    ours,
    papers,
    points,
    residual_line,
    sizes,
    sphere,
    with_residuals,
)
from exhume.lab.job import TrialJob
from exhume.report.palette import BLUE, GREEN, INK, PAPER, RED

_RATIOS = (0.1, 0.3, 0.6, 1, 2, 4, 10)


def _data(scale: str, *, multi: bool, n: int | None = None) -> tuple[DataRequest, int]:
    """(photographs, d): 8x8 pixels for a quick figure."""
    source, small = "cifar10-multi" if multi else "cifar10", scale == "quick"
    return DataRequest(source, n=n or 10, size=8 if small else None), 192 if small else 3072


def _sweep(
    data: DataRequest,
    d: int,
    victim: str,
    k: int,
    attack: str,
    ratios: tuple[float, ...],
    seeds: range,
    scale: str,
    **settings: Any,
) -> Points:
    assert data.n is not None
    at = {r * d * data.n: r for r in ratios}
    return points(lambda x, seed: network(data, victim, k, at[x], seed, attack, scale=scale, **settings), at, seeds)


def _curves(title: str, d: int, data: DataRequest, mine: dict[str, Points], residual: bool = False) -> Curves:
    first = next(iter(mine.values()))
    styles = {"gauss-newton": (RED, "-", "o"), "subspace": (BLUE, "-", "o"), "projection-gd": (PAPER, "--", "s")}
    lines = [Line(f"reconstruction, {name}", "rho", at, *styles[name]) for name, at in mine.items()]
    if residual:
        lines.append(Line("span residual", "span_residual", first, GREEN, "-", "^"))
    lines.append(Line("training error", "train_loss", first, INK, "-", "."))
    return Curves(title, tuple(lines), data.n, d, xlabel="parameters of the last layer")


def two_layer(scale: str, loss: str = "square", residual: bool = False) -> Curves:
    """Ten classes, one-hot targets."""
    data, d = _data(scale, multi=True)
    seeds = range(2) if scale == "quick" else range(10)
    ratios = {"gauss-newton": _RATIOS, "subspace": _RATIOS, "projection-gd": _RATIOS[2:] if scale == "quick" else _RATIOS}
    mine = {name: _sweep(data, d, "two-layer", 10, name, at, seeds, scale, loss=loss) for name, at in ratios.items()}
    return _curves(f"two-layer, 10 classes, {loss} loss, n = {data.n}, d = {d}", d, data, mine, residual)


def resnet(scale: str, residual: bool = False) -> Curves:
    """The right panel of Figure 6."""
    data, d = _data(scale, multi=False, n=4 if scale == "quick" else 10)
    seeds, ratios = (range(1), (0.5, 1.0, 2.0, 4.0, 8.0)) if scale == "quick" else (range(10), (0.1, 0.3, 1.0, 2.0, 4.0, 8.0))
    mine = {name: _sweep(data, d, "resnet", 1, name, ratios, seeds, scale) for name in ("gauss-newton", "projection-gd")}
    return _curves(f"ResNet, frog against truck, n = {data.n}, d = {d}", d, data, mine, residual)


def _pictures(scale: str, loss: str) -> list[Panel]:
    data, _ = _data(scale, multi=True, n=20 if scale == "quick" else 100)
    assert data.n is not None
    return [
        Pictures(
            f"{name}, {loss} loss, 4 dn", network(data, "two-layer", 10, 4.0, 0, attack, scale=scale, keep=True, loss=loss), data.n
        )
        for attack, name in (("projection-gd", "projection-gd (paper)"), ("subspace", "subspace (ours)"))
    ]


def logistic(scale: str) -> Curves:
    """The left panel of Figure 8."""
    d, n = (30, 20) if scale == "quick" else (100, 100)
    seeds, steps = (range(3), QUICK_STEPS["sphere"]) if scale == "quick" else (range(10), PAPER_STEPS)
    ps = [p for p in sizes(d, n, (0.3, 0.6, 1, 1.5, 2, 4, 10)) if p >= 3 * n]
    mine = points(lambda p, seed: ours(sphere(d, n, seed), int(p), seed, loss="logistic"), ps, seeds)
    theirs = points(lambda p, seed: papers(sphere(d, n, seed), int(p), seed, steps=steps, loss="logistic"), ps, seeds)
    lines = (
        Line("reconstruction, gauss-newton (ours)", "rho", mine),
        Line("reconstruction, projection-gd (paper)", "rho", theirs, PAPER, "--", "s"),
        residual_line(mine),
        Line("training loss", "train_loss", mine, INK, "-", "."),
    )
    return Curves(f"random features, logistic loss, d = {d}, n = {n}", lines, n, d)


def _fig9(scale: str) -> list[Panel]:
    return [with_residuals(sphere_curves(100, 20, scale)), two_layer(scale, residual=True), resnet(scale, residual=True)]


def _vit(scale: str) -> list[Panel]:
    data, d = _data(scale, multi=True, n=4 if scale == "quick" else 5)
    assert data.n is not None
    seeds, ratios = (range(1), (1.0, 2.0, 4.0, 16.0)) if scale == "quick" else (range(10), (0.3, 1.0, 2.0, 4.0))
    at = {r * d * data.n: r for r in ratios}
    settings: dict[str, Any] = {"train_to": 1e-8, "told_n": True}

    def trial(attack: str, x: float, seed: int) -> TrialJob:
        last = at[x] == ratios[-1] and seed == 0
        return network(data, "vit", data.n or 1, at[x], seed, attack, scale=scale, keep=last, **settings)

    mine = {name: points(partial(trial, name), at, seeds) for name in ("gauss-newton", "projection-gd")}
    panel = _curves(f"vision transformer, n = {data.n}, d = {d}", d, data, mine, residual=True)
    return [
        panel,
        *(Pictures(f"{name} at {ratios[-1]:g} dn", trial(name, max(at), 0), count=data.n, per_line=data.n) for name in mine),
    ]


FIGURES = [
    Figure(
        "fig6",
        "the same thresholds in networks trained by gradient descent",
        "For two-layer networks and ResNets the error falls once the last layer exceeds dn parameters.",
        lambda scale: [two_layer(scale), resnet(scale)],
        ("cifar10",),
        departs="8x8 pixels, 2 seeds (two-layer) and 1 (ResNet, n = 4); projection-gd is stopped after 2000 and 300 steps.",
    ),
    Figure(
        "fig7",
        "all images of a ten-class two-layer network",
        "At 4 dn, 100 images come back indistinguishable from the originals.",
        lambda scale: _pictures(scale, "square"),
        ("cifar10",),
        departs="20 images of 8x8 pixels; projection-gd is stopped after 2000 steps.",
    ),
    Figure(
        "fig8",
        "classification losses",
        "Logistic and cross-entropy training show the same threshold.",
        lambda scale: [logistic(scale), two_layer(scale, "cross-entropy")],
        ("cifar10",),
        departs="(d, n) = (30, 20), 8x8 pixels, 3 and 2 seeds; projection-gd is stopped after 2000 steps.",
    ),
    Figure(
        "fig9",
        "span inclusion for random features, two-layer networks and ResNets",
        "Reconstruction succeeds exactly where the true features lie in the span found.",
        _fig9,
        ("cifar10",),
        departs="as figs. 3 and 6.",
    ),
    Figure(
        "fig13",
        "vision transformers",
        "The error goes down once the last layer exceeds dn parameters.",
        _vit,
        ("cifar10",),
        departs="n = 4 images of 8x8 pixels, one seed; n is told; projection-gd is stopped after 300 steps.",
    ),
    Figure(
        "fig17",
        "all images of a network trained with cross-entropy",
        "As Figure 7, with cross-entropy.",
        lambda scale: _pictures(scale, "cross-entropy"),
        ("cifar10",),
        departs="20 images of 8x8 pixels; projection-gd is stopped after 2000 steps.",
    ),
]
