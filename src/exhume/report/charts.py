"""Pictures of a result, each as a data URI: nothing on the page is fetched."""

from __future__ import annotations

import base64
import io
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from exhume.auditing import Ladder
from exhume.data import Dataset
from exhume.lab import TrialResult
from exhume.report.palette import BLUE, GREY, INK, RED
from exhume.report.snapshots import Snapshot
from exhume.result import Reconstruction
from exhume.score.match import match

matplotlib.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "exhume", "font.size": 10})
_PATCH = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1.5}  # behind text that may cross a line
_PAIRS_PER_LINE = 10
_NEAR_FLOOR = 1e8


def _uri(figure: Figure, kind: str = "svg") -> str:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
    figure.savefig(buffer, format=kind, bbox_inches="tight", dpi=130, metadata=metadata)
    mime = "image/svg+xml" if kind == "svg" else f"image/{kind}"
    return f"data:{mime};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _axes(width: float = 5.2, height: float = 3.0) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height))
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def loss_curve(guess: Reconstruction) -> str:
    """Loss and number of rows against GEMM passes."""
    figure, axes = _axes()
    curve = guess.curve
    axes.semilogy(curve.passes, curve.loss, color=RED, lw=1.6)
    floor = guess.certificate.floor
    if curve.loss[-1] < _NEAR_FLOOR * floor:  # far above it, the line would only flatten the curve
        axes.axhline(floor, color=GREY, ls="--", lw=1)
        axes.text(
            curve.passes[0], floor / 1.6, "rounding floor", color=GREY, ha="left", va="top", fontsize=9
        )  # the curve falls to the right
    axes.set_xlabel("GEMM passes over the features")
    axes.set_ylabel("loss, as a share of ‖θ‖²", color=RED)
    rows = axes.twinx()
    rows.spines[["top"]].set_visible(False)
    rows.step(curve.passes, curve.rows, color=BLUE, lw=1.2, where="post")
    rows.set_ylabel("candidate rows", color=BLUE)
    rows.set_ylim(0, max(curve.rows) * 1.15)
    return _uri(figure)


def cliff(guess: Reconstruction) -> str:
    """Loss that removing each row would cost, in descending order: the cliff is n."""
    figure, axes = _axes()
    costs = np.maximum(np.array(guess.removal_costs), 1e-32)
    n = len(guess.rows)
    ranks = np.arange(1, len(costs) + 1)
    axes.semilogy(ranks[:n], costs[:n], "o", ms=4, color=RED, label="rows found")
    axes.semilogy(ranks[n:], costs[n:], "s", ms=4, color=GREY, label="spare rows, added to test")
    axes.axvline(n + 0.5, color=BLUE, lw=1.2)
    low, high = costs.min(), costs.max()
    axes.text(n + 0.3, (low * high) ** 0.5, f"n = {n}", color=BLUE, ha="right", va="center")
    axes.set_xlabel("row, by importance")
    axes.set_ylabel("loss its removal costs")
    axes.set_ylim(low / 30, high * 30)
    axes.legend(frameon=False, loc="lower left", fontsize=9)
    return _uri(figure)


def law_axis(p: int, d: int, n: int) -> str:
    """Where p stands against n and dn."""
    figure, axes = _axes(10.5, 1.7)
    axes.set_xscale("log")
    low, high = min(n, p) / 4, max(d * n, p) * 6
    axes.axvspan(low, n, color="#e9ecef", lw=0)
    axes.axvspan(n, d * n, color="#f6e7c1", lw=0)
    axes.axvspan(d * n, high, color="#f3c6c0", lw=0)
    for x, text in ((n, f"p = n = {n}"), (d * n, f"p = dn = {d * n}")):
        axes.axvline(x, color=INK, lw=1)
        axes.text(x * 1.04, 0.97, text, va="top", fontsize=9)
    _mark_model(axes, p, f"this model: p = {p}", low, high)
    for start, stop, text in (
        (low, n, "underfits"),
        (n, d * n, "memorises labels"),
        (d * n, high, "memorises samples"),
    ):
        if stop / start > 4:
            axes.text((start * stop) ** 0.5, 0.62, text, ha="center", va="center", fontsize=9)
    axes.set_xlabel("last-layer parameters p (logarithmic)")
    return _uri(figure)


def first_layer_axis(h: int, n: int, d: int, weights: int) -> str:
    """Where the first layer's h units stand against n samples: the law for all weights."""
    figure, axes = _axes(10.5, 1.7)
    axes.set_xscale("log")
    # Zeros outnumber unknowns from 2 n on; ten of ten runs succeeded at 4 n (benchmarks/bars.py mlp-80).
    counted, seen = 2 * n, 4 * n
    low, high = min(n, h) / 3, max(seen, h) * 4
    for start, stop, colour, text in (
        (low, counted, "#e9ecef", "too few zeros"),
        (counted, seen, "#f6e7c1", "seldom"),
        (seen, high, "#f3c6c0", "samples come back exactly"),
    ):
        axes.axvspan(start, stop, color=colour, lw=0)
        axes.text((start * stop) ** 0.5, 0.62, text, ha="center", va="center", fontsize=9)
    for x, text in ((counted, f"h = 2n = {counted}"), (seen, f"h = 4n = {seen}")):
        axes.axvline(x, color=INK, lw=1)
        axes.text(x * 1.03, 0.97, text, va="top", fontsize=9)
    _mark_model(axes, h, f"this model: h = {h}, all {weights} weights = {weights / (d * n):.2g} dn", low, high)
    axes.set_xlabel("units h of the first layer (logarithmic)")
    return _uri(figure)


def _mark_model(axes: Any, at: float, label: str, low: float, high: float) -> None:
    """A model's place on an axis of a law, from low to high, its label on the side that has room."""
    axes.plot([at], [0.3], "v", ms=12, color=RED)
    place, side = (at / 1.15, "right") if at > (low * high) ** 0.5 else (at * 1.15, "left")
    axes.text(place, 0.3, label, va="center", ha=side, color=RED, fontweight="bold", bbox=_PATCH)
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines[["left"]].set_visible(False)


def _show(axes: Any, picture: np.ndarray) -> None:
    single = picture.shape[-1] == 1
    axes.imshow(picture[..., 0] if single else picture, cmap="gray" if single else None, vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)


def picture_pairs(truth: Dataset, matched: torch.Tensor) -> str:
    """Truth above reconstruction, pair after pair."""
    per_line = min(_PAIRS_PER_LINE, truth.n)
    lines = -(-truth.n // per_line)
    figure = Figure(figsize=(0.98 * per_line + 0.9, 2.02 * lines))
    grid = figure.subplots(2 * lines, per_line, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
    shown = (truth.pictures(truth.rows), truth.pictures(matched))
    for i in range(lines * per_line):
        line, column = divmod(i, per_line)
        for k in range(2):
            axes = grid[2 * line + k, column]
            if i < truth.n:
                _show(axes, shown[k][i])
            else:
                axes.axis("off")
            if column == 0:
                axes.set_ylabel(("truth", "rebuilt")[k], rotation=0, ha="right", va="center", color=(INK, RED)[k])
    return _uri(figure, "png")


def comparison(results: list[TrialResult], count: int = 10) -> str:
    """Bars of every attack's error beside chance; for pictures, the truth and what each attack made of it below."""
    truth = results[0].truth
    names = [result.guess.attack for result in results]
    pictures = truth.kind == "image"
    count = min(count, truth.n)
    lines = len(results) + 1 if pictures else 0
    tall = 0.42 * len(results) + 1.3
    figure = Figure(figsize=(10.5, tall + 0.95 * lines), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[tall, 0.95 * lines]) if pictures else [figure]
    axes = halves[0].add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    places = np.arange(len(results))[::-1]
    scores = [result.score for result in results]
    low = min(min(score.rho_signed, score.rho_direction) for score in scores)
    floor = 10.0 ** np.floor(np.log10(max(low, 1e-16)) - 0.5)
    for values, offset, colour, label in (
        ([score.rho_signed for score in scores], 0.2, RED, "rows as rebuilt"),
        ([score.rho_direction for score in scores], -0.2, "#e5a59f", "directions only"),
    ):
        axes.barh(places + offset, np.array(values) - floor, height=0.36, left=floor, color=colour, label=label)
    chance = scores[0].chance_signed
    axes.axvline(chance, color=INK, ls="--", lw=1)
    axes.text(chance, len(results) - 0.45, "chance ", ha="right", va="bottom", fontsize=9, color=INK)
    axes.set_xscale("log")
    axes.set_xlim(floor, 5)
    axes.set_yticks(places, names)
    axes.set_xlabel("reconstruction error ρ (Eq. 12), nothing forgiven")
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)
    if pictures:
        shown = [truth.pictures(truth.rows)]
        for result in results:
            rows = result.guess.rows.double()
            shown.append(truth.pictures(match(truth.rows, rows, forgive_sign=False).rows(rows)))
        grid = halves[1].subplots(lines, count, squeeze=False)
        for line, (name, images) in enumerate(zip(["truth", *names], shown, strict=True)):
            for column in range(count):
                _show(grid[line, column], images[column])
            grid[line, 0].set_ylabel(name, rotation=0, ha="right", va="center", color=INK if line == 0 else RED)
    return _uri(figure, "png")


def exposure(errors: list[float], within: float, chance: float, *, directions: bool) -> str:
    """Relative error of every sample, most exposed first, against the bound and chance."""
    figure, axes = _axes(10.5, 2.6)
    values = np.maximum(np.array(errors), 1e-16)
    rebuilt = values < within
    places = np.arange(1, len(values) + 1)
    for chosen, colour, label in ((rebuilt, RED, "rebuilt"), (~rebuilt, GREY, "not rebuilt")):
        if chosen.any():
            axes.semilogy(places[chosen], values[chosen], "o", ms=4, color=colour, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for level, text, colour in ((within, f"{within:.0%}", BLUE), (chance, "chance", GREY)):
        axes.axhline(level, color=colour, ls="--", lw=1)
        axes.text(1.005, level, text, color=colour, va="center", fontsize=9, transform=axes.get_yaxis_transform())
    axes.set_ylim(min(values.min() / 5, within / 10), max(5.0, values.max() * 3))
    axes.set_xlabel("training samples, most exposed first")
    axes.set_ylabel("error of directions" if directions else "relative error")
    axes.legend(frameon=False, fontsize=9, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2)
    return _uri(figure)


def ladder(steps: Ladder) -> str:
    """Leakage and error of the model, one line per mitigation step; blue where the attack is stopped."""
    rungs = steps.rungs
    figure = Figure(figsize=(10.5, 0.36 * len(rungs) + 1.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1.4, 1])
    places = np.arange(len(rungs))[::-1]
    colours = [BLUE if rung.leakage <= steps.bearable else RED for rung in rungs]
    left.barh(places, [rung.leakage for rung in rungs], color=colours, height=0.6)
    for place, rung in zip(places, rungs, strict=True):
        left.text(rung.leakage + 0.015, place, f"{rung.rebuilt} of {rung.n}", va="center", fontsize=8.5)
    left.set_xlim(0, 1.18)
    left.set_xticks([0, 0.25, 0.5, 0.75, 1.0], ["0", "25%", "50%", "75%", "100%"])
    left.set_yticks(places, [f"{rung.step} {rung.setting}".strip() for rung in rungs])
    left.set_xlabel("training samples rebuilt")
    held = rungs[0].held_out_error is not None
    errors = [(rung.held_out_error if held else rung.train_error) or 0.0 for rung in rungs]
    right.plot(errors, places, "o", color=INK, ms=5)
    right.axvline(errors[0], color=GREY, ls="--", lw=1)
    right.set_xlim(0, max(*errors, 0.05) * 1.15)
    right.set_xlabel(("held-out" if held else "training") + " error (dashed: as it is)")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return _uri(figure)


def filmstrip(truth: Dataset, frames: list[Snapshot], count: int = 8) -> str:
    """The rows emerging: for some samples the nearest candidate at several steps, sign and norm fitted for display."""
    count = min(count, truth.n)
    figure = Figure(figsize=(0.98 * (len(frames) + 1) + 0.6, 0.98 * count + 0.5))
    grid = figure.subplots(count, len(frames) + 1, squeeze=False, gridspec_kw={"wspace": 0.06, "hspace": 0.06})
    true = truth.pictures(truth.rows[:count])
    norms = truth.rows.norm(dim=1)[:count, None]
    for column, frame in enumerate(frames):
        rows = match(truth.rows, frame.X, forgive_sign=True).rows(frame.X.double())[:count]
        shown = truth.pictures(rows * norms / rows.norm(dim=1, keepdim=True).clamp(min=1e-12))
        for i in range(count):
            _show(grid[i, column], shown[i])
        grid[0, column].set_title(f"step {frame.step}\nloss {frame.loss:.0e}", fontsize=8)
    for i in range(count):
        _show(grid[i, -1], true[i])
    grid[0, -1].set_title("truth\n", fontsize=8, color=INK)
    return _uri(figure, "png")


def error_bars(truth: Dataset, matched: torch.Tensor, guess: Reconstruction, chance: float) -> str:
    """Relative error of every row against chance, the certificate's own estimate beside it."""
    figure, axes = _axes()
    errors = ((truth.rows - matched).norm(dim=1) / truth.rows.norm(dim=1)).numpy()
    axes.semilogy(np.arange(1, truth.n + 1), np.maximum(errors, 1e-16), "o", ms=4, color=RED, label="measured")
    axes.axhline(chance, color=GREY, ls="--", lw=1)
    axes.text(truth.n, chance * 1.5, "chance", color=GREY, ha="right", va="bottom", fontsize=9)
    if guess.certificate.row_errors:
        worst = max(guess.certificate.row_errors)
        axes.axhline(worst, color=BLUE, ls=":", lw=1.2, label="largest standard error in the certificate")
    least = min(errors[errors > 0].min(initial=1e-2), min(guess.certificate.row_errors, default=1e-2))
    axes.set_ylim(max(least, 1e-16) / 10, 30)
    axes.set_xlabel("training sample")
    axes.set_ylabel("relative error of the row")
    # Below the axes: errors may be anywhere inside.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=9)
    return _uri(figure)
