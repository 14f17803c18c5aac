"""Gauss-Newton's matrix averaged over V: what a step needs to know of J^T J without a single product with V.

On a sphere of radius R the kernel E act_{>1}(v x) act_{>1}(v y), v ~ N(0, I/d), is a function f of the cosine c of x and y, and
J^T J per feature has for its expectation the kernel's second derivatives,
    rows i, j:           alpha_i . alpha_j (f'(c_ij) / R^2 I + f''(c_ij) / R^4 x_j x_i^T),
    row i, coefficient j: alpha_i f'(c_ij) / R^2 x_j,
    coefficients i, j:    f(c_ij),
all of it between tangents of the sphere. One product costs m^2 d multiplications, against p d m of one with J.
"""

from __future__ import annotations

import torch

from exhume.features import Kernel
from exhume.linalg.conjugate_gradients import Group, conjugate_gradients
from exhume.linalg.precision import cholesky

# Relative ridge under the small factors: two rows that have met make them singular.
_JITTER = 1e-9
# The inner solve: most products, ...
_SOLVE_STEPS = 40
# ... and the share of its residual that may stay.
_SOLVE_TOLERANCE = 1e-3


class ExpectedCurvature:
    """E J^T J per feature at rows X (m, d) with coefficients alpha (m, k); float64 throughout."""

    def __init__(self, kernel: Kernel, X: torch.Tensor, alpha: torch.Tensor, *, radius: float) -> None:
        self.X, self.alpha, self._square = X.double(), alpha.double(), radius**2
        cosines = ((self.X @ self.X.T) / self._square).clamp(-1, 1)
        weights = self.alpha @ self.alpha.T
        self._slope = kernel.slope(cosines) / self._square
        self._rows = self._slope * weights  # (m, m): the part f' of J^T J, a multiple of the identity for every pair of rows
        self._bend = kernel.curvature(cosines) * weights / self._square**2
        self._coefficients = cholesky(kernel.value(cosines), jitter=_JITTER)

    def tangent(self, rows: torch.Tensor) -> torch.Tensor:
        """The part of (m, d) that stays on the sphere."""
        return rows - self.X * ((rows * self.X).sum(1, keepdim=True) / self._square)

    def rows_inverse(self) -> torch.Tensor:
        """(m, m) inverse of the part of J^T J that is a multiple of the identity for every pair of rows."""
        return torch.cholesky_inverse(cholesky(self._rows, jitter=_JITTER))

    def rows_product(self, rows: torch.Tensor) -> torch.Tensor:
        """The block of J^T J from rows (m, d) to rows, before it is taken to the tangents."""
        return self._rows @ rows + (self._bend * (self.X @ rows.T)) @ self.X

    def towards_rows(self, coefficients: torch.Tensor) -> torch.Tensor:
        """The block of J^T J from coefficients (m, k) to rows."""
        return self.tangent((self._slope * (self.alpha @ coefficients.T)) @ self.X)

    def towards_coefficients(self, rows: torch.Tensor) -> torch.Tensor:
        """The block of J^T J from rows (m, d) to coefficients."""
        return (self._slope * (self.X @ rows.T)) @ self.alpha

    def solve(self, gradient: torch.Tensor, ridge: torch.Tensor) -> torch.Tensor:
        """The step (m, d) for a gradient at which the coefficients are at their best, and will follow; under a ridge (m,)."""
        factor = cholesky(self._rows + torch.diag(ridge), jitter=_JITTER)

        def product(rows: Group) -> Group:
            (D,) = rows
            eliminated = torch.cholesky_solve(self.towards_coefficients(D), self._coefficients)
            return (self.tangent(self.rows_product(D)) + ridge[:, None] * D - self.towards_rows(eliminated),)

        def precondition(residual: Group) -> Group:
            return (self.tangent(torch.cholesky_solve(residual[0], factor)),)

        return conjugate_gradients(product, (gradient,), precondition, steps=_SOLVE_STEPS, tolerance=_SOLVE_TOLERANCE)[0]
