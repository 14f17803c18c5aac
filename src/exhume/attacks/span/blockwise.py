"""The span problem over phi(x) = act(V x), block by block: ||theta - Phi(X)^T alpha - N zeta||^2 -> 0.

Every sum over features is a sum over blocks, so V need not exist as a whole.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import ClassVar, TypeVar

import torch

from exhume.attacks.span.problem import Moments, Point, Span, State
from exhume.features import Block, BlockwiseFeatures
from exhume.linalg.conjugate_gradients import Group
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.precision import GramSum, cholesky
from exhume.linalg.projector import Projector

# Features first..last - 1, both at a block's end.
Window = tuple[int, int]

AnyBlockwise = TypeVar("AnyBlockwise", bound="BlockwiseSpan")

# Skinny GEMMs run up to twice as fast on a multiple of this many columns.
_COLUMNS = 8


class BlockwiseSpan(Span):
    """theta in span{phi(x_i)}, up to nuisance columns [1, V] that take the sign of x out of the landscape."""

    eliminates_nuisance: ClassVar[bool] = True  # through the Gram of the nuisance columns

    def __init__(
        self,
        features: BlockwiseFeatures,
        weights: torch.Tensor,  # (k, p), of the features that this process holds
        *,
        radius: float | None,
        nuisance: bool,
        count: int | None = None,  # the first features carry the problem, in whole blocks; None: all of them
        leak: float = 0.0,  # slope that stands in for an exactly flat activation
        norm_bound: float = math.inf,
        passes: PassCounter | None = None,
    ) -> None:
        self.features = features
        self.dtype, self.device = features.dtype, features.device
        self.d, self.k = features.d, weights.shape[0]
        self._weights = weights.T.to(self.device, self.dtype).contiguous()  # (p, k), features held by this process only
        self.radius, self.norm_bound = radius, norm_bound
        self.nuisance = nuisance
        self.kink = features.activation.kink
        self.leak = leak
        self.passes = PassCounter() if passes is None else passes
        self._buffer = torch.empty(0, dtype=self.dtype, device=self.device)
        q = self.d + 1
        self._nuisance_gram = GramSum(q, dtype=self.dtype, device=self.device) if nuisance and self.eliminates_nuisance else None
        self._own_nuisance_theta = torch.zeros(q, self.k, dtype=torch.float64, device=self.device)
        self._nuisance_theta: torch.Tensor | None = None
        self._nuisance_inverse: torch.Tensor | None = None
        self.p = 0
        self._use(features.p if count is None else count)

    @property
    def moments(self) -> Moments | None:
        """As for any span; looked up each time, since an object that holds its own method stays in memory until a collection."""
        return None if self.features.activation.parity == "odd" else self.moment_product

    def extended(self: AnyBlockwise, count: int) -> AnyBlockwise:
        """The problem on the first `count` features (in whole blocks) where that is more."""
        other = copy.copy(self)
        other._nuisance_gram = None if self._nuisance_gram is None else self._nuisance_gram.copy()
        other._own_nuisance_theta = self._own_nuisance_theta.clone()
        other._use(count)
        return other

    def _use(self, count: int) -> None:
        """Let the first `count` features (in whole blocks) carry the problem; N^T N and N^T theta grow by the new ones."""
        start, self.p = self.p, self.features.whole_blocks(count)
        self.theta = self._weights[: self.features.held(self.p)]
        self.energy = float(self.total((self.theta.double() ** 2).sum()))
        if self._nuisance_gram is None:
            return
        for block in self.features.blocks(start, self.p):
            N = torch.cat([_even(block, self.dtype), _weigh(block.V, block.odd)], dim=1)  # (b, d + 1)
            self._nuisance_gram.add(N)
            self._own_nuisance_theta += (self.theta[block.rows].T @ N).T
        # One GEMM with d columns costs as much as d/32 ordinary ones.
        self.passes.add(math.ceil(self.d / 32 * (self.p - start) / self.p))
        self._nuisance_theta = self.total(self._own_nuisance_theta)
        factor = cholesky(self.total(self._nuisance_gram.value()), jitter=self._jitter)
        # LAPACK answers column by column, a layout in which skinny products are thirty times slower.
        self._nuisance_inverse = torch.cholesky_inverse(factor).contiguous()

    def without_nuisance(self) -> BlockwiseSpan:
        """The same problem where the linear part of the features counts as evidence."""
        if not self.nuisance:
            return self
        return BlockwiseSpan(self.features, self._weights.T, radius=self.radius, nuisance=False, count=self.p, passes=self.passes)

    def blocks(self, window: Window | None = None) -> Iterator[Block]:
        """The features that carry the problem, or those of a window on them."""
        return self.features.blocks(*((0, self.p) if window is None else window))

    def total(self, part: torch.Tensor) -> torch.Tensor:
        """The sum over the processes that share the features."""
        return self.features.team.total(part)

    def _zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    def state(self, at: Point) -> State:
        """Features, eliminated coefficients, residual, loss and gradient at X: two sweeps over V, four GEMMs."""
        X, m, k = at.X, at.X.shape[0], self.k
        Phi = torch.empty(len(self.theta), m, dtype=self.dtype, device=self.device)
        slopes = torch.empty_like(Phi)
        gram, f = self._zeros(m, m), self._zeros(m, k)
        cross = self._zeros(m, self.d + 1) if self.nuisance else None
        act, mean_slope = self.features.activation, self.features.mean_slope
        wide = padded(X)
        for block in self.blocks():
            Z = block.preactivation(wide)[:, :m]
            phi = act.value(Z)
            Phi[block.rows] = phi
            slope = act.slope(Z)
            if self.leak:
                slope[slope == 0] = self.leak
            if cross is not None:
                slope -= mean_slope if block.odd is None else mean_slope * block.odd
                cross[:, :1] += phi.T @ _even(block, self.dtype)
                cross[:, 1:] += _weigh(phi, block.odd).T @ block.V
            slopes[block.rows] = slope
            gram += phi.T @ phi
            f += phi.T @ self.theta[block.rows]
        gram, f = self.total(gram), self.total(f)
        cross = None if cross is None else self.total(cross)
        projector = Projector.build(gram, None if cross is None else cross.T, self._nuisance_inverse, jitter=self._jitter)
        alpha, zeta = projector.solve(f, self._nuisance_theta)
        residual, gradient = self._residual(Phi, slopes, alpha, zeta)
        self.passes.add(3 + int(self.nuisance))
        loss = float(self.total((residual.double() ** 2).sum())) / self.energy
        return State(Point(X), Phi, slopes, projector, alpha, zeta, residual, gradient, loss)

    def _residual(
        self, Phi: torch.Tensor, slopes: torch.Tensor, alpha: torch.Tensor, zeta: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """R = theta - Phi alpha - N zeta computed directly (no cancelling difference of squares), and V^T (slopes o R alpha^T)."""
        a = alpha.to(self.dtype)
        R = self.theta - Phi @ a
        gradient = torch.zeros(Phi.shape[1], self.d, dtype=self.dtype, device=self.device)
        for block in self.blocks():
            r = R[block.rows]
            if zeta is not None:
                r -= _nuisance_values(block, zeta.to(self.dtype))
            gradient += ((r @ a.T).mul_(slopes[block.rows])).T @ block.V
        return R, self.total(gradient)

    def gauss_newton_product(self, state: State, unknowns: Group) -> Group:
        """J^T J (dX, dalpha, dzeta) with J = [slopes o V dX^T alpha, Phi, N]: one sweep over V, two GEMMs per block."""
        dX, da = unknowns[0], unknowns[1].to(self.dtype)
        dz = unknowns[2].to(self.dtype) if len(unknowns) > 2 else None
        m, k = state.m, self.k
        alpha = state.alpha.to(self.dtype)
        used = m if dz is None else m + k  # zeta rides along in the same GEMM
        left = padded(dX if dz is None else torch.cat([dX, dz[1:].T]))
        out_rows = torch.zeros(left.shape[0], self.d, dtype=self.dtype, device=self.device)
        out_a = torch.zeros(m, k, dtype=torch.float64, device=self.device)
        out_first = torch.zeros(1, k, dtype=torch.float64, device=self.device)
        for block in self.blocks():
            slopes, Phi = state.slopes[block.rows], state.Phi[block.rows]
            T = torch.mm(block.V, left.T, out=self._scratch(block.V.shape[0], left.shape[0]))  # zero in its last columns
            rows = T[:, :m]
            U = rows.mul_(slopes) @ alpha  # (b, k)
            U.addmm_(Phi, da)
            if dz is not None:
                U += _weigh(T[:, m:used], block.odd)
                U += dz[:1] if block.even is None else block.even @ dz[:1]
                T[:, m:used] = _weigh(U, block.odd)
                out_first += _weigh(U, block.even).sum(0, keepdim=True)
            # With one output alpha multiplies rows of the result, which are far fewer than rows of the block.
            torch.mul(slopes, U if k == 1 else U @ alpha.T, out=rows)
            out_rows.addmm_(T.T, block.V)
            out_a += Phi.T @ U
        self.passes.add(2)
        out_rows, out_a = self.total(out_rows[:used]), self.total(out_a)
        if k == 1:
            out_rows[:m] *= alpha
        if dz is None:
            return out_rows, out_a
        return out_rows[:m], out_a, torch.cat([self.total(out_first), out_rows[m:].T.double()])

    def _scratch(self, rows: int, columns: int) -> torch.Tensor:
        """One buffer for all blocks: fresh memory would be paged in anew for each of them."""
        if self._buffer.numel() < rows * columns:
            self._buffer = torch.empty(rows * columns, dtype=self.dtype, device=self.device)
        return self._buffer[: rows * columns].view(rows, columns)

    def moment_product(self, vector: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
        """M2 W = sum_k r_k e_k (d v_k v_k^T - I) W, whose outliers are the samples not yet found; vector (p,), W (d, c)."""
        left = padded(directions.T.to(self.dtype))
        image = torch.zeros_like(left)
        trace = self._zeros()
        for block in self.blocks():
            r = _weigh(vector[block.rows, None], block.even)
            T = torch.mm(block.V, left.T, out=self._scratch(len(r), len(left)))
            image.addmm_(T.mul_(r).T, block.V)
            trace += r.double().sum()
        seen = self.total(image[: directions.shape[1]].T.double())
        self.passes.add(2)
        return self.d * seen - self.total(trace) * directions

    def informative(self, state: State) -> int:
        """Features that are on for some row: one that is off for every row gives an inequality only."""
        return int(self.total((state.slopes != 0).any(1).sum()))

    def random_signs(self, generator: torch.Generator) -> torch.Tensor:
        """As for any span; drawn for all features, so that the signs do not depend on who holds them."""
        return self.features.own(torch.randint(0, 2, (self.features.p,), generator=generator))[: len(self.theta)] * 2 - 1


def padded(rows: torch.Tensor) -> torch.Tensor:
    """Rows with zero rows added up to a multiple of `_COLUMNS`."""
    return torch.nn.functional.pad(rows, (0, 0, 0, -rows.shape[0] % _COLUMNS))


def _weigh(values: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    return values if weight is None else values * weight


def _even(block: Block, dtype: torch.dtype) -> torch.Tensor:
    """The constant nuisance column of a block, (b, 1)."""
    if block.even is None:
        return torch.ones(block.V.shape[0], 1, dtype=dtype, device=block.V.device)
    return block.even


def _nuisance_values(block: Block, zeta: torch.Tensor) -> torch.Tensor:
    """N zeta of a block, (b, k)."""
    return _even(block, zeta.dtype) @ zeta[:1] + _weigh(block.V @ zeta[1:], block.odd)
