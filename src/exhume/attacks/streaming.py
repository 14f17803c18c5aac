"""The search for inputs of many dimensions: every step looks at a fresh window of features once and forgets it.

Any features satisfy the same equations, so each window is a fresh set of them, and its residual an honest test of the rows. A step
is Gauss-Newton's with the expected curvature in place of products with J (`expected.py`): V is read once, two GEMMs per
block. What the window says about a row is blurred, since the errors of all others act as noise of variance s^2 / features: each row
moves as far as the length of its gradient stands out of that noise (the shrinkage of James and Stein), but never by less than
noise of `_HEAT` times that size would. This heat is what makes the search work: rows that stand for several samples at once are
shaken until one of them takes over, and cool down by themselves as the loss falls. Rows that do not stand out on a window
go, and new ones start where the second moment of the residual does: probes follow it
by one power a window, in the same GEMMs. So until the loss is at rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from exhume.attacks.cells import distinct_rows, repeated
from exhume.attacks.expected import ExpectedCurvature
from exhume.attacks.search import Pace, stalled
from exhume.attacks.span import Window
from exhume.attacks.wide_span import Sweep, WideSpan
from exhume.linalg import streams
from exhume.linalg.moments import krylov_width, leading
from exhume.linalg.precision import cholesky, precision

# Inputs of this many dimensions or more are searched this way.
WIDE = 750
# Rows to begin with, and looks at the weights before.
_FIRST, _LOOKS = 16, 6
# Features of a window: so many per row and dimension, for so many rows at least, and at most this share of all of them.
_PER_UNKNOWN, _FEW, _SHARE = 1.0, 64, 0.15
# Rows may be this share of those that the features could pin down at one feature per unknown: with more, windows are not fresh.
_CROWD = 0.4
_HEAT = 1.0
# A row turns by this much of its length at most.
_TURN = 0.7
# When steps stall: new rows as a share of those there, within bounds.
_PACE = Pace(growth=0.5, least=4, patience=2, gain=0.8)
_MOST, _LARGE_SHARE = 20, 0.2
_SETTLE = 4  # steps at least between two changes of the rows
# A direction stands out when its eigenvalue is this multiple of ||residual|| sqrt(probes).
_STANDS_OUT = 3.0
# A row must cost this many times what a coefficient fitted to noise would.
_SIGNIFICANT = 30.0
# Below this loss repeated rows go at once, and at the end those still not known to this relative error.
_FIRM, _VAGUE = 1e-7, 0.1
# A row that may go for this much loss is tried without; the loss must come back to this many times what it was, at this pace.
_DOUBTFUL, _WORSE = 1e-4, 3.0
_BACK = Pace(growth=0.0, least=0, patience=2, gain=0.5)
# Given up after so many rounds of new rows in which the loss did not fall to this share.
_PATIENCE, _FALLS = 12, 0.7


@dataclass(frozen=True)
class Stream:
    """One step of the search, to go on from."""

    X: torch.Tensor  # (m, d)
    alpha: torch.Tensor  # (m, 1)
    w: torch.Tensor  # (d + 1, 1) the linear part
    probes: torch.Tensor  # (d, c) orthonormal: where the second moment of what the rows leave stands out, as far as that is known
    stage: str = "stream"  # stream, doubt (tried without a row), done, failed
    place: int = 0  # where the next window begins
    losses: tuple[float, ...] = ()  # since the rows last changed
    loss: float = math.inf
    level: float = math.inf  # a loss, and the rounds of new rows since in which it hardly fell
    idle: int = 0
    round: int = 0
    step: int = 0
    before: Rows | None = None  # those before a doubtful one was taken out


@dataclass(frozen=True)
class Rows:
    """Rows with their coefficients, and the linear part."""

    X: torch.Tensor
    alpha: torch.Tensor
    w: torch.Tensor


_TENSORS = ("X", "alpha", "w", "probes")


def pack(at: Stream) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A step as tensors and plain values, for a checkpoint."""
    tensors = {f"stream_{name}": getattr(at, name) for name in _TENSORS}
    if at.before is not None:
        tensors |= {f"before_{name}": tensor for name, tensor in vars(at.before).items()}
    values = {name: value for name, value in vars(at).items() if name not in (*_TENSORS, "before")}
    # JSON has no infinity.
    return tensors, {name: None if value == math.inf else value for name, value in values.items()}


def unpack(tensors: dict[str, torch.Tensor], values: dict[str, Any], device: torch.device | str) -> Stream:
    """The step that `pack` took apart."""
    plain: dict[str, Any] = {name: math.inf if value is None else value for name, value in values.items()}
    plain |= {name: tensors[f"stream_{name}"].to(device) for name in _TENSORS} | {"losses": tuple(plain["losses"])}
    if "before_X" in tensors:
        plain["before"] = Rows(*(tensors[f"before_{name}"].to(device) for name in ("X", "alpha", "w")))
    return Stream(**plain)


def row_limit(problem: WideSpan, known_n: int | None) -> int:
    """Most rows that the search may try at a time."""
    return known_n if known_n is not None else max(1, int(_CROWD * problem.p / problem.d))


def begin(problem: WideSpan, *, limit: int, seed: int) -> Stream:
    """First rows: mixtures of the directions that stand out in the second moment of the weights without their linear part."""
    rows = min(_FIRST, limit)
    none = torch.empty(0, problem.d, dtype=problem.dtype, device=problem.device)
    w = torch.zeros(problem.d + 1, 1, dtype=torch.float64, device=problem.device)
    at = Stream(none, w[:0], w, _orthonormal(w[1:, :0], krylov_width(rows, problem.d), seed=seed, key=0))
    for _ in range(_LOOKS):
        window = _window(problem, at.place, rows)
        sweep = problem.sweep(at.X, at.alpha, at.w, at.probes, window)
        w = _linear_part(problem, at.w, sweep, sweep.squares / sweep.energy)
        last, at = at.probes, replace(at, w=w, probes=_basis(sweep.image), place=window[1])
    seen = leading(last, sweep.image, rows)[1]
    mixing = streams.random_directions(rows, seen.shape[1], seed=seed, purpose="mixing").to(seen)
    return _with_fresh(problem, at, mixing @ seen.T)


def advance(problem: WideSpan, at: Stream, *, limit: int, seed: int) -> Stream:
    """One window: a step of all rows, or other rows, or the end."""
    window = _window(problem, at.place, len(at.X))
    sweep = problem.sweep(at.X, at.alpha, at.w, at.probes, window)
    factor = cholesky(sweep.gram, jitter=precision(problem.dtype).jitter)
    followed = torch.cholesky_solve(sweep.f, factor)  # what the coefficients lack
    loss = (sweep.squares - float((sweep.f * followed).sum())) / sweep.energy
    moved, errors = _step(problem, at, sweep, factor, followed, loss)
    moved = replace(moved, place=window[1], loss=loss, losses=(*at.losses, loss)[-_SETTLE:], step=at.step + 1)
    # What removing each row would cost on this window.
    costs = (at.alpha + followed).square()[:, 0] / torch.cholesky_inverse(factor).diagonal() / sweep.energy
    floors, waited = precision(problem.dtype), len(moved.losses) == _SETTLE
    if at.before is not None:
        right = loss <= max(floors.converged, _WORSE * at.level)
        return _judged(moved, right=right, wrong=waited and stalled(moved.losses, _BACK))
    distinct = distinct_rows(repeated(at.X), costs)
    settled = waited and stalled(moved.losses, _PACE)
    ending = loss <= floors.polished or (settled and loss <= floors.certified)
    firm = distinct[errors[distinct] <= _VAGUE] if ending else distinct
    if loss < _FIRM and 0 < len(firm) < len(at.X):
        return _with_rows(moved, firm, sweep.gram)
    if ending:
        return _doubt(moved, costs, sweep.gram)
    if not settled:
        return moved
    moved = replace(moved, level=loss, idle=0) if loss < _FALLS * at.level else replace(moved, idle=at.idle + 1)
    if moved.idle >= _PATIENCE:
        return replace(moved, stage="failed")
    fresh = _outstanding(at.probes, sweep, _growth(len(at.X), limit))
    keep = distinct[costs[distinct] > _SIGNIFICANT * loss / sweep.features][: max(0, limit - len(fresh))]
    moved = _with_fresh(problem, _with_rows(replace(moved, round=at.round + 1), keep, sweep.gram), fresh)
    width = krylov_width(_growth(len(moved.X), limit), problem.d)
    return replace(moved, probes=_orthonormal(moved.probes, width, seed=seed, key=moved.round))


def _window(problem: WideSpan, place: int, rows: int) -> Window:
    """The next window from `place` on; windows tile the features, so that all are used."""
    wanted = min(_PER_UNKNOWN * problem.d * max(rows, _FEW), max(_SHARE * problem.p, _PER_UNKNOWN * problem.d * rows))
    each = problem.p / max(1, int(problem.p / wanted))
    # A checkpoint of other processes may have other blocks.
    first = problem.features.whole_blocks(place) % problem.p if place else 0
    last = problem.features.whole_blocks(min(problem.p, round(first + each)))
    return first, last if problem.p - last > 0.5 * each else problem.p


def _growth(rows: int, limit: int) -> int:
    """Most new rows at a time."""
    return min(max(_PACE.least, int(_PACE.growth * rows)), max(_MOST, int(_LARGE_SHARE * rows)), max(1, limit // 4))


def _orthonormal(probes: torch.Tensor, width: int, *, seed: int, key: int) -> torch.Tensor:
    """`width` probes: those there, and random ones."""
    d, there = probes.shape
    random = streams.random_directions(max(0, width - there), d, seed=seed, purpose="probes", block=key).to(probes)
    return _basis(torch.cat([probes[:, :width], random.T], dim=1))


def _basis(directions: torch.Tensor) -> torch.Tensor:
    """An orthonormal basis of their span; contiguous, as a checkpoint restores it: another layout would round differently."""
    return torch.linalg.qr(directions)[0].contiguous()


def _outstanding(probes: torch.Tensor, sweep: Sweep, most: int) -> torch.Tensor:
    """Directions (c, d) in which the second moment of a residual stands out on a window that the probes have not seen."""
    values, vectors = leading(probes, sweep.image, most)
    level = _STANDS_OUT * math.sqrt(sweep.squares * probes.shape[1])
    return vectors.T[: max(_PACE.least, int((values.abs() > level).sum()))]


def _step(
    problem: WideSpan, at: Stream, sweep: Sweep, factor: torch.Tensor, followed: torch.Tensor, loss: float
) -> tuple[Stream, torch.Tensor]:
    """Rows, coefficients, linear part and probes after one step, and the relative error of every row before it."""
    assert problem.radius is not None
    d, b, noise = problem.d, sweep.features, _noise(sweep, loss)
    alpha = at.alpha + followed
    curvature = ExpectedCurvature(problem.kernel, at.X, alpha, radius=problem.radius)
    gradient = curvature.tangent(sweep.gradient.double() * alpha / b) - curvature.towards_rows(followed)
    inverse = curvature.rows_inverse()
    blur = inverse.diagonal() * noise  # variance of each coordinate of a whole Gauss-Newton step that noise alone makes
    signal = (inverse @ gradient).square().sum(1) / d - blur
    spread = torch.maximum(signal, _HEAT * blur).clamp(max=problem.radius**2 / d)
    move = curvature.solve(gradient, noise / spread)
    turn = move.norm(dim=1, keepdim=True) / problem.radius
    move = move * (_TURN / turn.clamp(min=_TURN))
    X = problem.on_sphere(at.X + move.to(problem.dtype)).contiguous()
    alpha = alpha - torch.cholesky_solve(b * curvature.towards_coefficients(move), factor)
    w, probes = _linear_part(problem, at.w, sweep, loss), _basis(sweep.image)
    return replace(at, X=X, alpha=alpha, w=w, probes=probes), (spread * d).sqrt() / problem.radius


def _linear_part(problem: WideSpan, w: torch.Tensor, sweep: Sweep, loss: float) -> torch.Tensor:
    """w after a step of its own: on average [1, V] is orthogonal to all that rows can do, and to itself."""
    step = problem.d * sweep.pull[1:] / sweep.features
    blur = problem.d * _noise(sweep, loss)
    signal = max(float(step.square().mean()) - blur, _HEAT * blur)
    return w + torch.cat([sweep.pull[:1] / sweep.features, step * (signal / (signal + blur))])


def _noise(sweep: Sweep, loss: float) -> float:
    """The variance that a residual leaves in a mean over the window."""
    return loss * sweep.energy / sweep.features**2


def _with_rows(at: Stream, keep: torch.Tensor, gram: torch.Tensor) -> Stream:
    """The search with those rows only; their coefficients take over what those of the others did, as far as they can."""
    gone = torch.ones(len(at.X), dtype=torch.bool, device=keep.device)
    gone[keep] = False
    factor = cholesky(gram[keep][:, keep], jitter=precision(at.X.dtype).jitter)
    shift = torch.cholesky_solve(gram[keep][:, gone] @ at.alpha[gone], factor)
    return replace(at, X=at.X[keep].contiguous(), alpha=at.alpha[keep] + shift, losses=())


def _with_fresh(problem: WideSpan, at: Stream, fresh: torch.Tensor) -> Stream:
    """The search with fresh rows too, whose coefficients follow on the next window."""
    X = torch.cat([at.X, problem.on_sphere(fresh.to(at.X))])
    return replace(at, X=X, alpha=torch.cat([at.alpha, at.alpha.new_zeros(len(fresh), 1)]), losses=())


def _doubt(at: Stream, costs: torch.Tensor, gram: torch.Tensor) -> Stream:
    """The end, unless the weakest row may be superfluous: then the search tries to do without."""
    weakest = int(costs.argmin())
    if len(at.X) < 2 or costs[weakest] > _DOUBTFUL:
        return replace(at, stage="done")
    rest = torch.tensor([i for i in range(len(at.X)) if i != weakest], device=at.X.device)
    doubting = replace(at, stage="doubt", before=Rows(at.X, at.alpha, at.w), level=at.loss)
    return _with_rows(doubting, rest, gram)


def _judged(at: Stream, *, right: bool, wrong: bool) -> Stream:
    """Without a doubtful row: the loss has come back, or it will not and the row was needed, or that is not yet seen."""
    if right:
        return replace(at, stage="stream", before=None)
    if not wrong:
        return at
    assert at.before is not None
    return replace(at, **vars(at.before), stage="done", before=None, loss=at.level)
