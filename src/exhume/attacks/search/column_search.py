"""The search for columns of Delta: waves of rough candidates, from each the exact column by its zeros, and deflation.

A rough candidate needs no start. Third moments tie a column to its sample: sum_j u_j u_j^T [w_j . x > 0] has the column of x on
top, and regressing (u_j q)^2 on w_j gives x back, since a sample reaches the units that are on for it. A column that was found
confines the samples that were not to one dimension less, exactly, so that the last ones come by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from exhume.attacks.factors.column_space import ColumnSpace, SampleSpan, column_space
from exhume.attacks.factors.layer_change import LayerChange
from exhume.attacks.factors.zero_sets import MOST_ON, Column, candidate_zeros, exact_column, null_vectors, off_units
from exhume.linalg import streams
from exhume.linalg.pass_counter import PassCounter

# Numbers that the off units of one chunk of candidates take at most.
_CHUNK = 2**24
# A column that leaves less than this of itself beside those found is a combination of them.
_NEW = 1e-3
# Two columns this near to each other are one.
_SAME = 1e-3
# A share in a combination that is not rounding.
_SHARE = 0.02


@dataclass(frozen=True)
class ColumnSearchSettings:
    """How the waves run.

    Set on sphere problems (seeds 0 and 1) and on float32 networks with 20 and 50 pictures (seed 0); retreats were added
    for digits and patients (seeds 0 to 9).
    """

    variants: tuple[tuple[bool, float], ...] = ((True, 0.8), (False, 0.6), (True, 0.6), (False, 0.8))
    """Waves take these in turn: whether units weigh the same, and which share of the units that seem off is taken to be off."""

    per_missing: int = 6
    """Candidates of a wave for each column that is missing, ..."""

    least: int = 16
    """... and how many more, ..."""

    most: int = 256
    """... and at most."""

    moment_rounds: int = 40
    """Rounds in which a candidate is drawn to a sample."""

    sharpness: tuple[float, float] = (0.5, 6.0)
    """Slope of the soft mask tanh(c w.x / rms) in the first and in the last of them."""

    inertia: float = 0.3
    """Share of the last direction that stays in a round."""

    refinements: int = 5
    """Times that a candidate without a column is moved to the half-space of its smallest entries."""

    reweightings: int = 8
    """Rounds of reweighting for a null vector."""

    patience: int = 32
    """Waves without a new column after which the search takes some back, or gives up."""

    retreats: int = 3
    """Times that columns are taken back, those with the fewest zeros first: combinations of samples may have taken their places."""

    taken_back: float = 0.25
    """Share of the columns that a retreat takes back."""


@dataclass(frozen=True)
class ColumnsState:
    """The columns found so far, by their duals in coordinates of the row space."""

    duals: torch.Tensor  # (r, f)
    zeros: torch.Tensor  # (h, f) which units are zero
    wave: int = 0
    idle: int = 0  # waves since the last new column
    retreats: int = 0  # times that columns were taken back
    settled: bool = False  # all columns are found, and their own rows lead to no sparser ones

    @property
    def found(self) -> int:
        """Columns."""
        return self.duals.shape[1]


class ColumnSearch:
    """The waves on one layer."""

    def __init__(
        self, layer: LayerChange, space: SampleSpan, *, seed: int, passes: PassCounter, settings: ColumnSearchSettings | None = None
    ) -> None:
        self.settings = settings or ColumnSearchSettings()
        self.seed, self.passes = seed, passes
        self.rank = space.basis.shape[1]
        self._spaces = {equal: column_space(layer, space, equalise=equal) for equal in {one for one, _ in self.settings.variants}}

    def begin(self) -> ColumnsState:
        """No columns; of a single sample the row space is the row."""
        some = next(iter(self._spaces.values()))
        if self.rank == 1:
            return ColumnsState(some.U.new_ones(1, 1), torch.zeros(some.h, 1, dtype=torch.bool), settled=True)
        return ColumnsState(some.U.new_zeros(self.rank, 0), torch.zeros(some.h, 0, dtype=torch.bool, device=some.U.device))

    def done(self, state: ColumnsState) -> bool:
        """Whether all columns are found, or no more are."""
        given_up = state.idle >= self.settings.patience and not self._may_retreat(state)
        return state.settled or given_up

    def advance(self, state: ColumnsState) -> ColumnsState:
        """One wave, or, once there are enough columns, one round of columns from the rows that these give."""
        settings = self.settings
        if state.found >= self.rank:
            return self._settle(state)
        if state.idle >= settings.patience:
            return self._retreat(state)
        equal, share = settings.variants[state.wave % len(settings.variants)]
        space = self._spaces[equal]
        missing = _samples_left(space, state.duals)
        count = min(settings.most, settings.per_missing * missing.shape[1] + settings.least)
        candidates = self._candidates(space, missing, count, state.wave)
        before = state.found
        for _ in range(settings.refinements):
            state, candidates = self._columns(space, missing, candidates, share, state)
            if state.found >= self.rank or not candidates.shape[1]:
                break
        return replace(state, wave=state.wave + 1, idle=0 if state.found > before else state.idle + 1)

    def _candidates(self, space: ColumnSpace, missing: torch.Tensor, count: int, wave: int) -> torch.Tensor:
        """Rough samples as coordinates (m, b) in what is missing: a column's support and the half-space behind it in turn."""
        settings, U, m = self.settings, space.U, missing.shape[1]
        if m == 1:
            return U.new_tensor([[1.0, -1.0]])
        generator = streams.generator(self.seed, "columns", wave)
        a, q = (torch.randn(rows, count, generator=generator, dtype=torch.float64).to(U) for rows in (m, space.r))
        weights = _mean_weights(space) @ missing
        factor = _regression(weights)
        first, last = settings.sharpness
        for k in range(settings.moment_rounds):
            slope = first * (last / first) ** (k / max(1, settings.moment_rounds - 1))
            t = weights @ a
            mask = (1 + torch.tanh(slope * t / t.square().mean(0).sqrt())) / 2
            for _ in range(3):  # power steps
                q = U.T @ (mask * (U @ q))
                q = q / q.norm(dim=0)
            strength = (U @ q).square()
            fresh = _half_space(weights, factor, torch.tanh(strength / strength.median(0).values.clamp(min=1e-300)))
            a = (1 - settings.inertia) * fresh + settings.inertia * a
        self.passes.add(10 * settings.moment_rounds)
        return a

    def _settle(self, state: ColumnsState) -> ColumnsState:
        """Rows X = Y^-1 of the columns found, and from each row its column again: a sparser one takes the place of a combination.

        Where the combination y_1 + c y_2 stands for y_2, row 2 is right all the same, and leads to the column of sample 2.
        """
        before = state
        everywhere = torch.eye(self.rank, dtype=state.duals.dtype, device=state.duals.device)
        for equal, share in self.settings.variants[:2]:
            space = self._spaces[equal]
            state, _ = self._columns(space, everywhere, _rows(space, state), share, state)
        if not torch.equal(before.duals, state.duals):
            return replace(state, wave=state.wave + 1)
        if self._may_retreat(state) and float(self._zeros_on(state).max()) > MOST_ON:
            return self._retreat(state)
        return replace(state, wave=state.wave + 1, settled=True)

    def _zeros_on(self, state: ColumnsState) -> torch.Tensor:
        """For each of r columns the share of its zeros that are on for its row at both ends: of a sample, hardly any."""
        space = next(iter(self._spaces.values()))
        z = _rows(space, state)
        on = torch.minimum(space.start @ z, space.end @ z) > 0
        return (state.zeros & on).sum(0) / state.zeros.sum(0)

    def _may_retreat(self, state: ColumnsState) -> bool:
        return state.retreats < self.settings.retreats and state.found > 1

    def _retreat(self, state: ColumnsState) -> ColumnsState:
        """Take back the columns with the fewest zeros."""
        count = max(1, round(self.settings.taken_back * state.found))
        keep = state.zeros.sum(0).argsort(descending=True)[: state.found - count].sort().values
        return replace(
            state,
            duals=state.duals[:, keep],
            zeros=state.zeros[:, keep],
            wave=state.wave + 1,
            idle=0,
            retreats=state.retreats + 1,
        )

    def _columns(
        self, space: ColumnSpace, missing: torch.Tensor, candidates: torch.Tensor, share: float, state: ColumnsState
    ) -> tuple[ColumnsState, torch.Tensor]:
        """The columns behind candidates, and better candidates in place of those that have none."""
        settings = self.settings
        weights = _mean_weights(space) @ missing
        factor = _regression(weights)
        chunk, left = max(1, _CHUNK // (space.h * space.r)), []
        for some in candidates.split(chunk, dim=1):
            q = null_vectors(space, off_units(space, missing @ some, share=share), rounds=settings.reweightings)
            self.passes.add(settings.reweightings + 2)
            zeros = candidate_zeros(space, q)
            fruitless = []
            for b in range(some.shape[1]):
                column = exact_column(space, zeros[:, b]) if int(zeros[:, b].sum()) > space.r else None
                if column is None:
                    fruitless.append(b)
                else:
                    state = _with_column(state, space, column)
            if fruitless:
                strength = (space.U @ q[:, fruitless]).square()
                support = torch.tanh(3 * strength / strength.median(0).values.clamp(min=1e-300))
                left.append(_half_space(weights, factor, support))
        return state, torch.cat(left, dim=1) if left else candidates[:, :0]


def _with_column(state: ColumnsState, space: ColumnSpace, column: Column) -> ColumnsState:
    """The columns with one more, or with it in the place of a less sparse one that it is a combination of."""
    dual, zero = space.dual(column.q[:, None]), column.zero[:, None]
    if not state.found:
        return replace(state, duals=dual, zeros=zero)
    known = space.column(state.duals)
    nearest = (known.T @ column.q).abs().max()
    if float(1 - nearest) < _SAME**2 / 2:
        return state
    shares = torch.linalg.lstsq(known, column.q[:, None]).solution[:, 0]
    if float((known @ shares - column.q).norm()) > _NEW and state.found < space.r:
        return replace(state, duals=torch.cat([state.duals, dual], dim=1), zeros=torch.cat([state.zeros, zero], dim=1))
    counts = torch.where(shares.abs() > _SHARE, state.zeros.sum(0), space.h + 1)
    place = int(counts.argmin())
    if int(counts[place]) >= int(zero.sum()):
        return state
    duals, zeros = state.duals.clone(), state.zeros.clone()
    duals[:, place], zeros[:, place] = dual[:, 0], zero[:, 0]
    return replace(state, duals=duals, zeros=zeros)


def _rows(space: ColumnSpace, state: ColumnsState) -> torch.Tensor:
    """The rows X = Y^-1 of r columns as coordinates (r, r). Where a column is zero its unit is off: that tells the sign."""
    z = space.V.T @ torch.linalg.inv(state.duals).T
    where_zero = torch.where(state.zeros, _mean_weights(space) @ z, 0.0).sum(0)
    return torch.where(where_zero > 0, -z, z)


def _samples_left(space: ColumnSpace, duals: torch.Tensor) -> torch.Tensor:
    """Orthonormal basis (r, m) of where samples without a column lie: a found dual y_i has x_k . y_i = 0 for k != i."""
    if not duals.shape[1]:
        return torch.eye(space.r, dtype=space.U.dtype, device=space.U.device)
    found = torch.linalg.svd(space.V.T @ duals, full_matrices=True)[0]
    return found[:, duals.shape[1] :]


def _mean_weights(space: ColumnSpace) -> torch.Tensor:
    return (space.start + space.end) / 2


def _regression(weights: torch.Tensor) -> torch.Tensor:
    """The Cholesky factor of W^T W."""
    gram = weights.T @ weights
    ridge = 1e-12 * gram.diagonal().mean()
    return torch.linalg.cholesky(gram + ridge * torch.eye(len(gram), dtype=gram.dtype, device=gram.device))


def _half_space(weights: torch.Tensor, factor: torch.Tensor, support: torch.Tensor) -> torch.Tensor:
    """The directions (m, b) whose half-spaces fit the supports (h, b) best, by linear regression, at unit preactivation."""
    a = torch.cholesky_solve(weights.T @ (support - support.mean(0)), factor)
    return a / (weights @ a).square().mean(0).sqrt().clamp(min=1e-300)
