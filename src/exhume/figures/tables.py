"""The two result tables: the three regimes on CIFAR-10, and the threshold by model and loss."""

from __future__ import annotations

import numpy as np

from exhume.figures import networks, random_features
from exhume.figures.panels import Curves, Line, Table
from exhume.figures.sheet import Figure, Panel, Results

_GONE = 0.3  # the threshold of a curve: the first p from which the mean error stays below this


def _regimes(scale: str) -> list[Panel]:
    curves = next(panel for panel in random_features.fig1(scale) if isinstance(panel, Curves))
    mine = curves.lines[0]
    assert curves.n is not None
    assert curves.d is not None
    wanted = {"p = n": curves.n, "p = dn": curves.n * curves.d, "p = 10 dn": 10 * curves.n * curves.d}
    at = {name: next(point for point in mine.points if point[0] == p) for name, p in wanted.items()}

    def cells(name: str, results: Results) -> list[str]:
        rows = results.rows(at[name][1])
        if not rows:
            return ["not finished"] * 4
        mean = {field: float(np.mean([row[field] for row in rows])) for field in ("train_loss", "rho_direction", "chance")}
        return [f"{mean['train_loss']:.1e}", f"{mean['rho_direction']:.2g}", f"{mean['chance']:.2g}", rows[0]["status"]]

    lines = tuple((name, lambda results, name=name: cells(name, results)) for name in wanted)
    header = ("parameters", "training loss", "error of directions", "chance", "status")
    return [Table(f"{curves.title}, gauss-newton", header, lines, tuple(job for _, jobs in at.values() for job in jobs))]


def _configurations(scale: str) -> list[Panel]:
    found: list[tuple[str, Curves, Line]] = []
    for name, curves in (
        ("random features, sphere", random_features.sphere_curves(30, 20, scale)),
        ("random features, logistic loss", networks.logistic(scale)),
        ("two-layer, square loss", networks.two_layer(scale)),
        ("two-layer, cross-entropy", networks.two_layer(scale, "cross-entropy")),
        ("ResNet, square loss", networks.resnet(scale)),
    ):
        found += [(name, curves, line) for line in curves.lines if line.field == "rho"]

    def cells(curves: Curves, line: Line, results: Results) -> list[str]:
        x, mean, _ = line.values(results)
        if len(x) == 0:
            return [line.label.partition(", ")[2], "not finished", ""]
        assert curves.n is not None
        assert curves.d is not None
        above = np.flatnonzero(mean > _GONE)
        first = 0 if len(above) == 0 else above[-1] + 1
        unit = curves.n * curves.d
        text = f"{x[first] / unit:.2g} dn" if first < len(x) else f"above {x[-1] / unit:.2g} dn"
        return [line.label.partition(", ")[2], text, f"{mean.min():.2g}"]

    lines = tuple((name, lambda results, c=curves, ln=line: cells(c, ln, results)) for name, curves, line in found)
    header = ("configuration", "attack", f"error below {_GONE:g} from p of", "least error")
    jobs = tuple(job for _, curves, line in found for _, jobs in line.points for job in jobs)
    return [Table("Threshold by model and loss", header, lines, jobs)]


FIGURES = [
    Figure(
        "table1",
        "three regimes on CIFAR-10",
        "p = n fits the labels only, at p = dn reconstruction begins, at 10 dn it is complete.",
        _regimes,
        ("cifar10",),
        alone=True,
        departs="as fig1.",
    ),
    Figure(
        "table2",
        "the threshold by model and loss",
        "All configurations have their threshold at about dn parameters of the last layer.",
        _configurations,
        ("cifar10",),
        departs="as figs. 3, 6 and 8.",
    ),
]
