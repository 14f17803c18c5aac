"""The search for inputs of many dimensions: every step looks at a fresh window of features once and forgets it.

Any features satisfy the same equations, so each window is a fresh set of them, and its residual an honest test of the rows. A step
is Gauss-Newton's with the expected curvature in place of products with J (`span/expected_curvature.py`): V is read once, two GEMMs
per block. What the window says about a row is blurred, since the errors of all others act as noise of variance s^2 / features: each
row moves as far as the length of its gradient stands out of that noise (the shrinkage of James and Stein), but never by less than
noise of `heat` times that size would. This heat is what makes the search work: rows that stand for several samples at once are
shaken until one of them takes over, and cool down by themselves as the loss falls. Rows that do not stand out on a window
go, and new ones start where the second moment of the residual does: probes follow it
by one power a window, in the same GEMMs. So until the loss is at rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch

from exhume import counting
from exhume.attacks.proof.doubtful_rows import recovered_loss
from exhume.attacks.proof.duplicate_rows import distinct_rows, repeated
from exhume.attacks.search.pace import Pace
from exhume.attacks.search.streaming_state import (
    Rows,
    StreamingStage,
    StreamingState,
    judged,
    with_fresh,
    with_rows,
    without_doubtful,
)
from exhume.attacks.span.blockwise import Window
from exhume.attacks.span.expected_curvature import ExpectedCurvature
from exhume.attacks.span.high_dimensional import HighDimensionalSpan, Sweep
from exhume.linalg import streams
from exhume.linalg.krylov import krylov_width, leading
from exhume.linalg.precision import cholesky, precision


@dataclass(frozen=True)
class StreamingSettings:
    """How windows and rows are chosen. All values were set on CIFAR-10 shrunk to 16x16 pixels, 100 pictures at 10 dn and 30 at
    4 dn, seed 0."""

    first_rows: int = 16
    """Rows to begin with."""

    looks: int = 6
    """Windows on which the first directions are followed before there are rows."""

    features_per_unknown: float = 1.0
    """Features of a window, per row and dimension."""

    least_rows_assumed: int = 64
    """Windows are never smaller than for this many rows, ..."""

    largest_share: float = 0.15
    """... nor larger than this fraction of all features."""

    crowd: float = 0.4
    """Most rows, as a share of those that the features pin down at one feature per unknown: with more, windows are not fresh."""

    heat: float = 1.0
    """Least step of a row, in units of what noise alone makes of a Gauss-Newton step. At 0 the search sticks."""

    largest_turn: float = 0.7
    """A row turns by this share of its length at most."""

    pace: Pace = Pace(patience=2, gain=0.8, growth=0.5, least=4)
    """When steps stall, and how many new rows are then tried."""

    most_new_rows: int = 20
    """New rows at a time: at most so many, ..."""

    large_share: float = 0.2
    """... or this share of those there, whichever is more."""

    settle_steps: int = 4
    """Steps at least between two changes of the rows."""

    outstanding: float = 3.0
    """A direction stands out when its eigenvalue is this multiple of ||residual|| sqrt(probes)."""

    significant: float = 30.0
    """A row must cost this many times what a coefficient fitted to noise would."""

    firm: float = 1e-7
    """Below this loss repeated rows go at once, and at the end vague ones."""

    vague: float = 0.1
    """Relative error above which a row is vague at the end."""

    back_pace: Pace = Pace(patience=2, gain=0.5)
    """How fast the loss comes back after a row was taken out that is superfluous."""

    patience: int = 12
    """Given up after so many rounds of new rows in which the loss did not fall to `fall` times the reference loss."""

    fall: float = 0.7


@dataclass(frozen=True)
class Streaming:
    """The strategy: at most `limit` rows at a time."""

    limit: int
    seed: int
    settings: StreamingSettings = field(default_factory=StreamingSettings)

    @staticmethod
    def row_limit(problem: HighDimensionalSpan, settings: StreamingSettings) -> int:
        """Most rows that the search may try at a time where n is not claimed."""
        return max(1, int(settings.crowd * problem.p / problem.d))

    def begin(self, problem: HighDimensionalSpan) -> StreamingState:
        """First rows: mixtures of the directions that stand out in the second moment of the weights without their linear part."""
        count = min(self.settings.first_rows, self.limit)
        none = torch.empty(0, problem.d, dtype=problem.dtype, device=problem.device)
        linear = torch.zeros(problem.d + 1, 1, dtype=torch.float64, device=problem.device)
        probes = _orthonormal(linear[1:, :0], krylov_width(count, problem.d), seed=self.seed, key=0)
        now = StreamingState(Rows(none, linear[:0], linear), probes)
        for _ in range(self.settings.looks):
            window = self._window(problem, now.place, count)
            sweep = _sweep(problem, now, window)
            linear = self._linear_part(problem, now.rows.linear, sweep, sweep.squares / sweep.energy)
            last, now = now.probes, replace(now, rows=replace(now.rows, linear=linear), probes=_basis(sweep.image), place=window[1])
        seen = leading(last, sweep.image, count)[1]
        mixing = streams.random_directions(count, seen.shape[1], seed=self.seed, purpose="mixing").to(seen)
        return with_fresh(problem, now, mixing @ seen.T)

    def done(self, now: StreamingState) -> bool:
        """Whether the search has ended, one way or the other."""
        return now.stage in (StreamingStage.DONE, StreamingStage.FAILED)

    def advance(self, problem: HighDimensionalSpan, now: StreamingState) -> StreamingState:
        """One window: a step of all rows, or other rows, or the end."""
        settings, rows = self.settings, now.rows
        window = self._window(problem, now.place, len(rows.X))
        sweep = _sweep(problem, now, window)
        factor = cholesky(sweep.gram, jitter=precision(problem.dtype).jitter)
        followed = torch.cholesky_solve(sweep.f, factor)  # what the coefficients lack
        loss = (sweep.squares - float((sweep.f * followed).sum())) / sweep.energy
        stepped, errors = self._step(problem, now, sweep, factor, followed, loss)
        losses = (*now.losses, loss)[-settings.settle_steps :]
        after = replace(stepped, place=window[1], loss=loss, losses=losses, step=now.step + 1)
        # What removing each row would cost on this window.
        costs = (rows.alpha + followed).square()[:, 0] / torch.cholesky_inverse(factor).diagonal() / sweep.energy
        floors, waited = precision(problem.dtype), len(losses) == settings.settle_steps
        if now.before is not None:
            right = loss <= recovered_loss(now.reference_loss, converged=floors.converged)
            return judged(after, right=right, wrong=waited and settings.back_pace.stalled(losses))
        distinct = distinct_rows(repeated(rows.X), costs)
        settled = waited and settings.pace.stalled(losses)
        ending = loss <= floors.polished or (settled and loss <= floors.certified)
        firm = distinct[errors[distinct] <= settings.vague] if ending else distinct
        if loss < settings.firm and 0 < len(firm) < len(rows.X):
            return with_rows(after, firm, sweep.gram)
        if ending:
            return without_doubtful(after, costs, sweep.gram)
        return self._reshaped(problem, now, after, sweep, distinct, costs) if settled else after

    def _reshaped(
        self,
        problem: HighDimensionalSpan,
        before: StreamingState,
        now: StreamingState,
        sweep: Sweep,
        distinct: torch.Tensor,
        costs: torch.Tensor,
    ) -> StreamingState:
        """Rows that do not stand out on the window go, new ones start where the residual's second moment does."""
        settings, loss = self.settings, now.loss
        if loss < settings.fall * before.reference_loss:
            now = replace(now, reference_loss=loss, rounds_without_progress=0)
        else:
            now = replace(now, rounds_without_progress=before.rounds_without_progress + 1)
        if now.rounds_without_progress >= settings.patience:
            return replace(now, stage=StreamingStage.FAILED)
        fresh = self._outstanding(before.probes, sweep, self._growth(len(before.rows.X)))
        noise = settings.significant * counting.noise_gain(loss, unknowns=1, equations=sweep.features)
        keep = distinct[costs[distinct] > noise][: max(0, self.limit - len(fresh))]
        now = with_fresh(problem, with_rows(replace(now, round=before.round + 1), keep, sweep.gram), fresh)
        width = krylov_width(self._growth(len(now.rows.X)), problem.d)
        return replace(now, probes=_orthonormal(now.probes, width, seed=self.seed, key=now.round))

    def _window(self, problem: HighDimensionalSpan, place: int, rows: int) -> Window:
        """The next window from `place` on; windows tile the features, so that all are used."""
        settings = self.settings
        per_row = settings.features_per_unknown * problem.d
        wanted = min(per_row * max(rows, settings.least_rows_assumed), max(settings.largest_share * problem.p, per_row * rows))
        each = problem.p / max(1, int(problem.p / wanted))
        # A checkpoint of other processes may have other blocks.
        first = problem.features.whole_blocks(place) % problem.p if place else 0
        last = problem.features.whole_blocks(min(problem.p, round(first + each)))
        return first, last if problem.p - last > 0.5 * each else problem.p

    def _growth(self, rows: int) -> int:
        """Most new rows at a time."""
        settings = self.settings
        most = max(settings.most_new_rows, int(settings.large_share * rows))
        return min(settings.pace.added(rows), most, max(1, self.limit // 4))

    def _outstanding(self, probes: torch.Tensor, sweep: Sweep, most: int) -> torch.Tensor:
        """Directions (c, d) in which the second moment of a residual stands out on a window that the probes have not seen."""
        values, vectors = leading(probes, sweep.image, most)
        level = self.settings.outstanding * math.sqrt(sweep.squares * probes.shape[1])
        return vectors.T[: max(self.settings.pace.least, int((values.abs() > level).sum()))]

    def _step(
        self,
        problem: HighDimensionalSpan,
        now: StreamingState,
        sweep: Sweep,
        factor: torch.Tensor,
        followed: torch.Tensor,
        loss: float,
    ) -> tuple[StreamingState, torch.Tensor]:
        """Rows, coefficients, linear part and probes after one step, and the relative error of every row before it."""
        assert problem.radius is not None
        settings, rows = self.settings, now.rows
        d, b, noise = problem.d, sweep.features, _noise(sweep, loss)
        alpha = rows.alpha + followed
        curvature = ExpectedCurvature(problem.kernel, rows.X, alpha, radius=problem.radius)
        gradient = curvature.tangent(sweep.gradient.double() * alpha / b) - curvature.towards_rows(followed)
        inverse = curvature.rows_inverse()
        blur = inverse.diagonal() * noise  # variance of each coordinate of a whole Gauss-Newton step that noise alone makes
        signal = (inverse @ gradient).square().sum(1) / d - blur
        spread = torch.maximum(signal, settings.heat * blur).clamp(max=problem.radius**2 / d)
        move = curvature.solve(gradient, noise / spread)
        turn = move.norm(dim=1, keepdim=True) / problem.radius
        move = move * (settings.largest_turn / turn.clamp(min=settings.largest_turn))
        X = problem.on_sphere(rows.X + move.to(problem.dtype)).contiguous()
        alpha = alpha - torch.cholesky_solve(b * curvature.towards_coefficients(move), factor)
        moved = Rows(X, alpha, self._linear_part(problem, rows.linear, sweep, loss))
        return replace(now, rows=moved, probes=_basis(sweep.image)), (spread * d).sqrt() / problem.radius

    def _linear_part(self, problem: HighDimensionalSpan, linear: torch.Tensor, sweep: Sweep, loss: float) -> torch.Tensor:
        """The linear part after a step of its own: on average [1, V] is orthogonal to all that rows can do, and to itself."""
        step = problem.d * sweep.pull[1:] / sweep.features
        blur = problem.d * _noise(sweep, loss)
        signal = max(float(step.square().mean()) - blur, self.settings.heat * blur)
        return linear + torch.cat([sweep.pull[:1] / sweep.features, step * (signal / (signal + blur))])


def _sweep(problem: HighDimensionalSpan, now: StreamingState, window: Window) -> Sweep:
    return problem.sweep(now.rows.X, now.rows.alpha, now.rows.linear, now.probes, window)


def _noise(sweep: Sweep, loss: float) -> float:
    """The variance that a residual leaves in a mean over the window."""
    return loss * sweep.energy / sweep.features**2


def _orthonormal(probes: torch.Tensor, width: int, *, seed: int, key: int) -> torch.Tensor:
    """`width` probes: those there, and random ones."""
    d, there = probes.shape
    random = streams.random_directions(max(0, width - there), d, seed=seed, purpose="probes", block=key).to(probes)
    return _basis(torch.cat([probes[:, :width], random.T], dim=1))


def _basis(directions: torch.Tensor) -> torch.Tensor:
    """An orthonormal basis of their span; contiguous, as a checkpoint restores it: another layout would round differently."""
    return torch.linalg.qr(directions)[0].contiguous()
