"""The search for inputs of many dimensions: every step looks at a fresh window of features once and forgets it.

Any features satisfy the same equations, so each window is a fresh set of them, and its residual an honest test of the rows. A step
is Gauss-Newton's with the expected curvature in place of products with J (`expected.py`): V is read once, two GEMMs per
block. What the window says about a row is blurred, since the errors of all others act as noise of variance s^2 / features: each row
moves as far as the length of its gradient stands out of that noise (the shrinkage of James and Stein), but never by less than
noise of `_HEAT` times that size would. This heat is what makes the search work: rows that stand for several samples at once are
shaken until one of them takes over, and cool down by themselves as the loss falls. Rows that do not stand out on a window
go, and new ones start where its second moment does, until the loss is at rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from exhume.attacks.expected import ExpectedCurvature
from exhume.attacks.search import APART, Pace, distinct_rows, fresh_rows, stalled, strongest
from exhume.attacks.span import Window
from exhume.attacks.wide_span import Sweep, WideSpan
from exhume.linalg.precision import cholesky, precision

# Inputs of this many dimensions or more are searched this way.
WIDE = 750
# Rows to begin with.
_FIRST = 16
# Features of a window: so many per row and dimension, for so many rows at least, and at most this share of all of them.
_PER_UNKNOWN, _FEW, _SHARE = 1.0, 64, 0.25
# Rows may be this share of those that the features could pin down at one feature per unknown: with more, windows are not fresh.
_CROWD = 0.4
_HEAT = 1.0
# A row turns by this much of its length at most.
_TURN = 0.7
# When steps stall: new rows as a share of those there, within bounds.
_PACE = Pace(growth=0.5, least=4, patience=2, gain=0.8)
_MOST, _LARGE_SHARE = 20, 0.2
_SETTLE = 4  # steps at least between two changes of the rows
# A row must cost this many times what a coefficient fitted to noise would.
_SIGNIFICANT = 30.0
# Below this loss rows that are still not known to this relative error are superfluous.
_FIRM, _VAGUE = 1e-7, 0.1
# A row that may go for this much loss is tried without; the loss must come back to this many times what it was, at this pace.
_DOUBTFUL, _WORSE = 1e-4, 3.0
_BACK = Pace(growth=0.0, least=0, patience=2, gain=0.5)
# Given up after so many rounds of new rows in which the loss was not halved.
_PATIENCE = 12


@dataclass(frozen=True)
class Stream:
    """One step of the search, to go on from."""

    X: torch.Tensor  # (m, d)
    w: torch.Tensor  # (d + 1, k) the linear part
    alpha: torch.Tensor | None = None  # (m, k); None where the rows are new
    stage: str = "stream"  # stream, doubt (tried without a row), done, failed
    place: int = 0  # where the next window begins
    losses: tuple[float, ...] = ()  # since the rows last changed
    loss: float = float("inf")
    level: float = float("inf")  # a loss, and the rounds of new rows in which it was not halved
    idle: int = 0
    round: int = 0
    step: int = 0
    doubted: tuple[torch.Tensor, torch.Tensor] | None = None  # rows and linear part before one was taken out


def pack(at: Stream) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A step as tensors and plain values, for a checkpoint."""
    tensors = {"X": at.X, "linear": at.w}
    if at.alpha is not None:
        tensors["alpha"] = at.alpha
    if at.doubted is not None:
        tensors |= {"doubted_X": at.doubted[0], "doubted_linear": at.doubted[1]}
    values = {name: value for name, value in vars(at).items() if name not in ("X", "w", "alpha", "doubted")}
    # JSON has no infinity.
    return tensors, {name: None if value == float("inf") else value for name, value in values.items()}


def unpack(tensors: dict[str, torch.Tensor], values: dict[str, Any], device: torch.device | str) -> Stream:
    """The step that `pack` took apart."""
    there = {name: tensor.to(device) for name, tensor in tensors.items()}
    plain: dict[str, Any] = {name: float("inf") if value is None else value for name, value in values.items()}
    doubted = (there["doubted_X"], there["doubted_linear"]) if "doubted_X" in there else None
    plain["losses"] = tuple(plain["losses"])
    return Stream(there["X"], there["linear"], there.get("alpha"), doubted=doubted, **plain)


def row_limit(problem: WideSpan, known_n: int | None) -> int:
    """Most rows that the search may try at a time."""
    return known_n if known_n is not None else max(1, int(_CROWD * problem.p / problem.d))


def begin(problem: WideSpan, *, limit: int, seed: int) -> Stream:
    """First rows: mixtures of the directions that stand out in the second moment of the weights."""
    w, rows = problem.linear_part(), min(_FIRST, limit)
    window = _window(problem, 0, rows)
    none = torch.empty(0, problem.d, dtype=problem.dtype, device=problem.device)
    sweep = problem.sweep(none, w[:0], w, window)
    return Stream(_fresh(problem, sweep, window, rows, seed=seed, key=0, mix=True), w, place=window[1])


def advance(problem: WideSpan, at: Stream, *, limit: int, seed: int) -> Stream:
    """One window: a step of all rows, or other rows, or the end."""
    window = _window(problem, at.place, len(at.X))
    alpha = at.alpha if at.alpha is not None else problem.coefficients(at.X, at.w, window)
    sweep = problem.sweep(at.X, alpha, at.w, window)
    factor = cholesky(sweep.gram, jitter=precision(problem.dtype).jitter)
    followed = torch.cholesky_solve(sweep.f, factor)  # how alpha would follow by itself
    loss = (sweep.squares - float((sweep.f * followed).sum())) / sweep.energy
    moved, errors = _step(problem, at, alpha, sweep, factor, loss)
    moved = replace(moved, place=window[1], loss=loss, losses=(*at.losses, loss)[-_SETTLE:], step=at.step + 1)
    # What removing each row would cost on this window.
    costs = (alpha + followed).square().sum(1) / torch.cholesky_inverse(factor).diagonal() / sweep.energy
    floors = precision(problem.dtype)
    settled = len(moved.losses) == _SETTLE and stalled(moved.losses, _PACE)
    if at.doubted is not None:
        gone = len(moved.losses) == _SETTLE and stalled(moved.losses, _BACK)
        return _judged(moved, right=loss <= max(floors.converged, _WORSE * at.level), wrong=gone)
    if loss < _FIRM:
        firm = errors <= _VAGUE
        if bool(firm.any()) and not bool(firm.all()):
            return _with_rows(moved, moved.X[firm])
    if loss <= floors.polished or (settled and loss <= floors.certified):
        return _doubt(moved, costs, loss)
    if not settled:
        return moved
    moved = replace(moved, level=loss, idle=0) if loss < 0.5 * at.level else replace(moved, idle=at.idle + 1)
    if moved.idle >= _PATIENCE:
        return replace(moved, stage="failed")
    noise = loss / (sweep.features * problem.k)
    count = min(max(_PACE.least, int(_PACE.growth * len(at.X))), max(_MOST, int(_LARGE_SHARE * len(at.X))), max(1, limit // 4))
    keep = distinct_rows(at.X, costs, apart=APART)
    keep = keep[costs[keep] > _SIGNIFICANT * noise][: max(0, limit - count)]
    fresh = _fresh(problem, sweep, window, count, seed=seed, key=at.round + 1, mix=False)
    return _with_rows(replace(moved, round=at.round + 1), torch.cat([moved.X[keep], fresh]))


def _window(problem: WideSpan, place: int, rows: int) -> Window:
    """The next window from `place` on; windows of one size tile the features, so that all are used."""
    wanted = min(_PER_UNKNOWN * problem.d * max(rows, _FEW), max(_SHARE * problem.p, _PER_UNKNOWN * problem.d * rows))
    each = problem.p / max(1, int(problem.p / wanted))
    first = place if place + 0.5 * each < problem.p else 0
    return first, problem.features.whole_blocks(min(problem.p, round(first + each)))


def _fresh(problem: WideSpan, sweep: Sweep, window: Window, count: int, *, seed: int, key: int, mix: bool) -> torch.Tensor:
    """Rows where the second moment of a window's residual stands out."""
    moments = None if problem.moments is None else partial(problem.moment_product, window=window)
    return fresh_rows(problem, moments, strongest(problem, sweep.residual), count, seed=seed, key=key, mix=mix)


def _step(
    problem: WideSpan, at: Stream, alpha: torch.Tensor, sweep: Sweep, factor: torch.Tensor, loss: float
) -> tuple[Stream, torch.Tensor]:
    """Rows, coefficients and linear part after one step, and the relative error of every row before it."""
    assert problem.radius is not None
    d, b = problem.d, sweep.features
    noise = loss * sweep.energy / (b * problem.k) / b  # of a mean over the window
    curvature = ExpectedCurvature(problem.kernel, at.X, alpha, radius=problem.radius)
    gradient = curvature.without_coefficients(sweep.gradient / b, sweep.f / b)
    inverse = curvature.rows_inverse()
    blur = inverse.diagonal() * noise  # variance of each coordinate of a whole Gauss-Newton step that noise alone makes
    signal = (inverse @ gradient).square().sum(1) / d - blur
    spread = torch.maximum(signal, _HEAT * blur).clamp(max=problem.radius**2 / d)
    move = curvature.solve(gradient, noise / spread)
    turn = move.norm(dim=1, keepdim=True) / problem.radius
    move = move * (_TURN / turn.clamp(min=_TURN))
    X = problem.on_sphere(at.X + move.to(problem.dtype)).contiguous()
    followed = torch.cholesky_solve(sweep.f - b * curvature.towards_coefficients(move), factor)
    # [1, V] is orthogonal to all that rows can do, up to the blur of a window.
    linear = d * sweep.pull[1:] / b
    blur_of_linear = d * noise
    shown = max(float(linear.square().mean()) - blur_of_linear, _HEAT * blur_of_linear)
    w = at.w + torch.cat([sweep.pull[:1] / b, linear * (shown / (shown + blur_of_linear))])
    errors = (spread * d).sqrt() / problem.radius
    return replace(at, X=X, w=w, alpha=alpha + followed), errors


def _with_rows(at: Stream, X: torch.Tensor, **changes: Any) -> Stream:
    """The search with other rows."""
    return replace(at, X=X.contiguous(), alpha=None, losses=(), **changes)


def _doubt(at: Stream, costs: torch.Tensor, loss: float) -> Stream:
    """The end, unless the weakest row may be superfluous: then the search tries to do without."""
    weakest = int(costs.argmin())
    if len(at.X) < 2 or costs[weakest] > _DOUBTFUL:
        return replace(at, stage="done")
    rest = torch.cat([at.X[:weakest], at.X[weakest + 1 :]])
    return _with_rows(at, rest, stage="doubt", doubted=(at.X, at.w), level=loss)


def _judged(at: Stream, *, right: bool, wrong: bool) -> Stream:
    """Without a doubtful row: the loss has come back, or it will not and the row was needed, or that is not yet seen."""
    if right:
        return replace(at, stage="stream", doubted=None)
    if not wrong:
        return at
    assert at.doubted is not None
    X, w = at.doubted
    return _with_rows(replace(at, w=w), X, stage="done", doubted=None, loss=at.level)
