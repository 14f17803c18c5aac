"""The span problem for inputs of many dimensions: the nuisance coefficients are carried along instead of eliminated.

Eliminating the columns [1, V] takes their Gram, which costs p d^2 multiplications and d^2 numbers. Features without their linear
part, act_{>1}(V x), are nearly orthogonal to those columns, so the coefficients w that fit theta best hardly depend on the rows:
they are fitted once, are unknowns of every Gauss-Newton step, and the state at its end takes over what the step made of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks.span.blockwise import BlockwiseSpan, Window, padded
from exhume.attacks.span.problem import Point, State
from exhume.features import BlockwiseFeatures, beyond_linear, kernel_beyond_linear, linear_part
from exhume.linalg.conjugate_gradients import Group, conjugate_gradients
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.projector import Projector

# The first fit of the linear part: most products, ...
_FIT_STEPS = 12
# ... and the share of its residual that may stay.
_FIT_TOLERANCE = 1e-3
# Features per dimension from which [1, V] is nearly orthogonal.
FEATURES_PER_DIMENSION = 6


@dataclass(frozen=True)
class Sweep:
    """Sums over the features of a window, at rows with given coefficients and linear part; one output."""

    features: int
    gradient: torch.Tensor  # (m, d): minus the gradient of half the squared residual, per unit of each row's coefficient
    f: torch.Tensor  # (m, 1) float64: the same for the coefficients, Phi^T residual
    pull: torch.Tensor  # (d + 1, 1) float64: the same for the linear part
    gram: torch.Tensor  # (m, m) float64: Phi^T Phi
    image: torch.Tensor  # (d, c) float64: the residual's second moment times the probes
    squares: float  # ||residual||^2
    energy: float  # ||theta||^2


class HighDimensionalSpan(BlockwiseSpan):
    """theta (p, k) in span{act_{>1}(V x_i), 1, V}; features without a phase, drawn at random."""

    eliminates_nuisance = False  # their coefficients are carried along in every point

    def __init__(
        self,
        features: BlockwiseFeatures,
        weights: torch.Tensor,
        *,
        radius: float,
        count: int | None = None,
        passes: PassCounter | None = None,
    ) -> None:
        scale = radius / math.sqrt(features.d)
        self._act = beyond_linear(features.activation, scale=scale)
        self._constant, self._slope = linear_part(features.activation, scale=scale)
        self.kernel = kernel_beyond_linear(features.activation, scale=scale)
        super().__init__(features, weights, radius=radius, nuisance=True, count=count, passes=passes)

    def linear_fit(self) -> torch.Tensor:
        """w (d + 1, k) of the best fit of theta by [1, V], whose Gram is nearly diag(p, p/d, ...), by conjugate gradients."""

        def sweep(w: torch.Tensor | None) -> torch.Tensor:
            """[1, V]^T [1, V] w, or [1, V]^T theta."""
            image = self._zeros(self.d + 1, self.k)
            for block in self.blocks():
                u = self.theta[block.rows] if w is None else self._linear(block.V @ w[1:].to(self.dtype), w)
                image[:1] += u.double().sum(0)
                image[1:] += block.V.T @ u
            self.passes.add(2)
            return self.total(image)

        (w,) = conjugate_gradients(
            lambda unknowns: (sweep(unknowns[0]),),
            (sweep(None),),
            lambda residual: (self._scaled(residual[0]),),
            steps=_FIT_STEPS,
            tolerance=_FIT_TOLERANCE,
        )
        return w

    def _linear(self, values: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return values + w[:1].to(self.dtype)

    def _scaled(self, residual: torch.Tensor) -> torch.Tensor:
        """diag(p, p/d, ...)^-1 residual."""
        return torch.cat([residual[:1], self.d * residual[1:]]) / self.p

    def state(self, at: Point) -> State:
        """As with all coefficients eliminated, up to what w lacks; two sweeps over V, two GEMMs."""
        X, w = at.X, self.linear_fit() if at.linear is None else at.linear
        m, k = X.shape[0], self.k
        Phi = torch.empty(len(self.theta), m, dtype=self.dtype, device=self.device)
        slopes, residual = torch.empty_like(Phi), torch.empty_like(self.theta)
        gram, f = self._zeros(m, m), self._zeros(m, k)
        wide = padded(torch.cat([X, w[1:].T.to(self.dtype)]))
        for block in self.blocks():
            Z = block.V @ wide.T
            Phi[block.rows], slopes[block.rows] = self._act.value(Z[:, :m]), self._act.slope(Z[:, :m])
            residual[block.rows] = self.theta[block.rows] - self._linear(Z[:, m : m + k], w)
            phi = Phi[block.rows]
            gram += phi.T @ phi
            f += phi.T @ residual[block.rows]
        projector = Projector.build(self.total(gram), None, None, jitter=self._jitter)
        alpha, _ = projector.solve(self.total(f), None)
        a = alpha.to(self.dtype)
        residual -= Phi @ a
        gradient = torch.zeros(wide.shape[0], self.d, dtype=self.dtype, device=self.device)
        for block in self.blocks():
            r = residual[block.rows]
            left = self._scratch(len(r), len(wide))
            torch.mul(slopes[block.rows], r @ a.T, out=left[:, :m])
            left[:, m : m + k], left[:, m + k :] = r, 0
            gradient.addmm_(left.T, block.V)
        gradient = self.total(gradient)
        first = self.total(residual.double().sum(0, keepdim=True))
        self.passes.add(4)
        loss = float(self.total((residual.double() ** 2).sum())) / self.energy
        zeta = w - self._own(X, alpha)
        pull = torch.cat([first, gradient[m : m + k].T.double()])
        return State(Point(X, w), Phi, slopes, projector, alpha, zeta, residual, gradient[:m], loss, pull)

    def sweep(self, X: torch.Tensor, alpha: torch.Tensor, w: torch.Tensor, probes: torch.Tensor, window: Window) -> Sweep:
        """All that one look at a window says of rows, coefficients and linear part: V is read once, nothing of it is kept."""
        assert self.k == 1
        m, a = len(X), alpha.to(self.dtype)
        gram, f = self._zeros(m, m), self._zeros(m, 1)
        constant, squares, energy = self._zeros(), self._zeros(), self._zeros()
        wide = padded(torch.cat([X, w[1:].T.to(self.dtype), probes.T.to(self.dtype)]))
        out = torch.zeros_like(wide)
        for block in self.blocks(window):
            Z = torch.mm(block.V, wide.T, out=self._scratch(len(block.V), len(wide)))  # zero in its last columns
            rows, theta = Z[:, :m], self.theta[block.rows]
            phi = self._act.value(rows)
            r = theta - self._linear(Z[:, m : m + 1], w) - phi @ a
            gram += phi.T @ phi
            f += phi.T @ r
            constant += r.sum()
            squares += r.double().square().sum()
            energy += theta.double().square().sum()
            torch.mul(self._act.slope(rows), r, out=rows)
            Z[:, m : m + 1] = r
            Z[:, m + 1 :] *= r
            out.addmm_(Z.T, block.V)
        self.passes.add(2, share=(window[1] - window[0]) / self.p)
        out, gram, f = self.total(out), self.total(gram), self.total(f)
        constant, squares, energy = self.total(torch.stack([constant, squares, energy]))
        seen = out[m + 1 : m + 1 + probes.shape[1]].T.double()
        return Sweep(
            features=window[1] - window[0],
            gradient=out[:m],
            f=f,
            pull=torch.cat([constant[None], out[m].double()])[:, None],
            gram=gram,
            image=self.d * seen - constant * probes,
            squares=float(squares),
            energy=float(energy),
        )

    def _own(self, X: torch.Tensor, alpha: torch.Tensor) -> torch.Tensor:
        """Coefficients of [1, V] in sum_i alpha_i (act - act_{>1})(V x_i)."""
        return torch.cat([self._constant * alpha.sum(0, keepdim=True), self._slope * (X.double().T @ alpha)])

    def step(self, state: State, *, damping: float, cg_steps: int, cg_tolerance: float) -> Point:
        """The point after one damped Gauss-Newton step in rows, coefficients and linear part."""
        assert state.zeta is not None
        move = self.move(state, damping=damping, cg_steps=cg_steps, cg_tolerance=cg_tolerance)
        X = self.on_sphere(state.X + move[0]).contiguous()
        return Point(X, state.zeta + self._own(state.X, state.alpha) + move[2])

    def solve_linear(self, state: State, right: Group) -> Group:
        """Nearly the inverse of the Gram of the features and the nuisance columns."""
        return state.projector.solve(right[0], None)[0], self._scaled(right[1])
