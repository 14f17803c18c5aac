"""Least squares on the columns [Phi^T, N]: m candidate features and q nuisance columns, through small Grams only.

With A = Phi Phi^T, B = N^T Phi^T and C = N^T N, the nuisance is eliminated first, so every solve costs O((m + q)^2) and
no p-sized matrix is ever projected.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from exhume.linalg.precision import cholesky


@dataclass(frozen=True)
class Projector:
    """Solves with the Gram matrix of [Phi^T, N]; all tensors float64."""

    factor: torch.Tensor  # (m, m) Cholesky of the Schur complement S = A - B^T C^-1 B
    nuisance_inverse: torch.Tensor | None  # (q, q) C^-1: C is well conditioned, and one product reads less memory than two solves
    coupling: torch.Tensor | None  # (q, m) C^-1 B

    @staticmethod
    def build(
        gram: torch.Tensor,  # (m, m)
        cross: torch.Tensor | None,  # (q, m)
        nuisance_inverse: torch.Tensor | None,  # (q, q)
        *,
        jitter: float,
    ) -> Projector:
        """Factor the Gram matrix once for a given set of candidates."""
        coupling = None
        schur = gram
        if cross is not None and nuisance_inverse is not None:
            coupling = nuisance_inverse @ cross
            schur = gram - cross.T @ coupling
        return Projector(cholesky(schur, jitter=jitter), nuisance_inverse, coupling)

    def solve(self, f: torch.Tensor, g: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Coefficients (alpha, zeta) with Gram [alpha; zeta] = [f; g]; f (m, k), g (q, k)."""
        if self.coupling is None or self.nuisance_inverse is None or g is None:
            return torch.cholesky_solve(f, self.factor), None
        alpha = torch.cholesky_solve(f - self.coupling.T @ g, self.factor)
        return alpha, self.nuisance_inverse @ g - self.coupling @ alpha

    @cached_property
    def inverse_diagonal(self) -> torch.Tensor:
        """Diagonal of S^-1, (m,)."""
        return torch.cholesky_inverse(self.factor).diagonal()

    def removal_cost(self, alpha: torch.Tensor) -> torch.Tensor:
        """What the squared residual gains when column i is removed: alpha_i^2 / (S^-1)_ii (Optimal Brain Surgeon), (m,)."""
        return (alpha**2).sum(1) / self.inverse_diagonal

    def supported(self, alpha: torch.Tensor, budget: float) -> list[int]:
        """Columns left after removing the cheapest one by one while the squared residual gains at most `budget` in all.

        Backward elimination with exact updates: of two columns that say the same, one goes and the other becomes dear.
        """
        inverse = torch.cholesky_inverse(self.factor)
        alpha = alpha.clone()
        left = torch.ones(len(alpha), dtype=torch.bool, device=alpha.device)
        spent = 0.0
        while int(left.sum()) > 1:
            cost = (alpha**2).sum(1) / inverse.diagonal()
            cost[~left] = torch.inf
            i = int(cost.argmin())
            spent += float(cost[i])
            if spent > budget:
                break
            column = inverse[:, i] / inverse[i, i]
            alpha = alpha - column[:, None] * alpha[i]
            inverse = inverse - column[:, None] * inverse[i]
            left[i] = False
        return left.nonzero().flatten().tolist()
