"""The span problem: find rows X whose features span the weights, ||theta - Phi(X)^T alpha - N zeta||^2 -> 0.

A separable least-squares problem. A `Span` gives all that a solver needs: the state at X with the linear coefficients
eliminated, the gradient, one Gauss-Newton product, a preconditioner. Searches, certificates and signs know only this.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from exhume import counting
from exhume.linalg.blocks import slices
from exhume.linalg.conjugate_gradients import Group, conjugate_gradients
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.precision import cholesky, precision
from exhume.linalg.projector import Projector

# Rows whose alpha is (nearly) zero have no curvature; the preconditioner keeps this share of the mean instead.
_WEAK_ROW = 1e-6
# Rows per partial Gram: products in the dtype, sums of them in float64.
_GRAM_ROWS = 8192

# (vector over the features, directions (d, c)) -> the vector's second moment in the inputs, times the directions
Moments = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
AnySpan = TypeVar("AnySpan", bound="Span")


@dataclass(frozen=True)
class Point:
    """Where a span problem is looked at."""

    X: torch.Tensor  # (m, d) candidate rows
    linear: torch.Tensor | None = None  # (d + 1, k) float64: coefficients of [1, V], where they are carried along with the rows


@dataclass(frozen=True)
class State:
    """The problem at one point, with the linear coefficients solved for."""

    at: Point
    Phi: torch.Tensor  # (p, m) features
    slopes: torch.Tensor  # (p, m) phi'(Vx), its linear part removed where that is a nuisance column
    projector: Projector
    alpha: torch.Tensor  # (m, k) float64
    zeta: torch.Tensor | None  # (q, k) float64, nuisance coefficients
    residual: torch.Tensor  # (p, k)
    gradient: torch.Tensor  # (m, d): minus the gradient of half the squared residual
    loss: float  # ||residual||^2 / ||theta||^2
    pull: torch.Tensor | None = None  # (q, k) N^T residual, where zeta is not solved for and that is not zero

    @property
    def X(self) -> torch.Tensor:
        """The candidate rows, (m, d)."""
        return self.at.X

    @property
    def m(self) -> int:
        """Number of candidate rows."""
        return self.X.shape[0]

    def with_rows(self, X: torch.Tensor) -> Point:
        """Other rows, with the linear part of this state."""
        return Point(X, self.at.linear)


class Span(ABC):
    """theta in span{phi(x_i)}, possibly up to nuisance columns."""

    dtype: torch.dtype
    device: torch.device
    d: int  # coordinates of a row
    p: int  # features
    k: int  # outputs
    radius: float | None  # common norm of the rows; None: norms are free
    norm_bound: float = math.inf  # free norms stay within this factor of sqrt(d), the mean norm of standardised inputs
    nuisance: bool  # columns [1, V] take the sign of x out of the landscape
    kink: float = 0.0  # jump of the features' slope at a hyperplane of V, where they are linear between these
    theta: torch.Tensor  # (p, k)
    energy: float  # ||theta||^2
    passes: PassCounter  # sweeps over all features, of all problems of a run

    @abstractmethod
    def state(self, at: Point) -> State:
        """Features, eliminated coefficients, residual, loss and gradient at a point."""

    @abstractmethod
    def gauss_newton_product(self, state: State, unknowns: Group) -> Group:
        """J^T J (dX, dalpha, dzeta)."""

    @abstractmethod
    def informative(self, state: State) -> int:
        """Features that say something about the rows."""

    def total(self, part: torch.Tensor) -> torch.Tensor:
        """The sum over all processes that hold features."""
        return part

    def random_signs(self, generator: torch.Generator) -> torch.Tensor:
        """+1 or -1 for every feature held, (p,)."""
        return torch.randint(0, 2, (self.p,), generator=generator) * 2 - 1

    @property
    def moments(self) -> Moments | None:
        """The second moment of the weights; None where samples do not show in it."""
        return None

    @property
    def equations(self) -> int:
        """Numbers that the weights give, p k."""
        return self.p * self.k

    def unknowns(self, rows: int) -> int:
        """Free numbers of so many rows with their coefficients."""
        return counting.unknowns(rows, self.d, self.k, on_sphere=self.radius is not None)

    def noise_cost(self, loss: float) -> float:
        """What the removal of a row costs that was fitted to nothing but noise: loss (d + k) / (p k)."""
        return counting.noise_gain(loss, unknowns=self.d + self.k, equations=self.equations)

    @property
    def typical_norm(self) -> float:
        """The norm of a row that nothing is known of."""
        return self.radius if self.radius is not None else math.sqrt(self.d)

    def with_radius(self: AnySpan, radius: float | None) -> AnySpan:
        """The same problem with rows on another sphere, or of free norms."""
        other = copy.copy(self)
        other.radius = radius
        return other

    def without_nuisance(self) -> Span:
        """The same problem where the linear part of the features counts as evidence."""
        return self

    @property
    def _jitter(self) -> float:
        return precision(self.dtype).jitter

    def on_sphere(self, X: torch.Tensor) -> torch.Tensor:
        """Rows rescaled to the radius, or to the nearest norm that is allowed."""
        norms = X.norm(dim=1, keepdim=True)
        if self.radius is not None:
            return X * (self.radius / norms)
        if math.isinf(self.norm_bound):
            return X
        typical = math.sqrt(self.d)
        return X * (norms.clamp(typical / self.norm_bound, typical * self.norm_bound) / norms)

    def tangent(self, X: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        """The part of a step that stays on the sphere."""
        if self.radius is None:
            return step
        return step - X * ((step * X).sum(1, keepdim=True) / self.radius**2)

    def row_curvature(self, state: State) -> torch.Tensor:
        """The n x n matrix of the model J^T J ~ ((M^T M) o (alpha alpha^T) / d) (x) I_d, in float64."""
        gram = torch.zeros(state.m, state.m, dtype=torch.float64, device=self.device)
        for rows in slices(len(state.slopes), _GRAM_ROWS):
            slopes = state.slopes[rows]
            gram += slopes.T @ slopes
        return self.total(gram) * (state.alpha @ state.alpha.T) / self.d

    def step(self, state: State, *, damping: float, cg_steps: int, cg_tolerance: float) -> Point:
        """The point after one damped Gauss-Newton step."""
        move = self.move(state, damping=damping, cg_steps=cg_steps, cg_tolerance=cg_tolerance)
        return Point(self.on_sphere(state.X + move[0]).contiguous())

    def move(self, state: State, *, damping: float, cg_steps: int, cg_tolerance: float) -> Group:
        """One damped Gauss-Newton step; alpha and zeta are unknowns of the inner problem too, so that a product is one sweep."""
        curvature = self.row_curvature(state)
        diagonal = curvature.diagonal()
        diagonal = diagonal.clamp(min=float(diagonal.mean()) * _WEAK_ROW)
        factor = cholesky(curvature + torch.diag(damping * diagonal), jitter=self._jitter)
        ridge = (damping * diagonal).to(self.dtype)[:, None]

        def product(unknowns: Group) -> Group:
            image = self.gauss_newton_product(state, unknowns)
            return (self.tangent(state.X, image[0]) + ridge * unknowns[0], *image[1:])

        def precondition(residual: Group) -> Group:
            rows = torch.cholesky_solve(residual[0].double(), factor).to(self.dtype)
            return (self.tangent(state.X, rows), *self.solve_linear(state, residual[1:]))

        right: Group = (self.tangent(state.X, state.gradient), torch.zeros_like(state.alpha))
        if state.zeta is not None:
            right = (*right, torch.zeros_like(state.zeta) if state.pull is None else state.pull)
        return conjugate_gradients(product, right, precondition, steps=cg_steps, tolerance=cg_tolerance)

    def solve_linear(self, state: State, right: Group) -> Group:
        """(alpha, zeta) for the Gram of the features and the nuisance columns, or alpha alone."""
        a, z = state.projector.solve(right[0], right[1] if self.nuisance else None)
        return (a,) if z is None else (a, z)

    def removal_costs(self, state: State) -> torch.Tensor:
        """Loss that removing each row would cost, normalised, (m,)."""
        return state.projector.removal_cost(state.alpha) / self.energy

    def strongest(self, columns: torch.Tensor) -> torch.Tensor:
        """The combination of outputs (p, k) with most energy, (p,)."""
        if columns.shape[1] == 1:
            return columns[:, 0]
        vectors = torch.linalg.eigh(self.total((columns.T @ columns).double()))[1]
        return columns @ vectors[:, -1].to(columns)
