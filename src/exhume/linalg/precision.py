"""Every tolerance that depends on the dtype, in one place."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    """Where sums in this dtype end: measured floors of the normalised loss ||P_perp theta||^2 / ||theta||^2."""

    converged: float  # a search may stop here: only rounding is left
    certified: float  # the floor within which a residual counts as zero in a certificate
    unsupported: float  # rows that may go for this much loss in all are not in the weights
    jitter: float  # relative ridge under a Cholesky factor


_BY_DTYPE = {
    torch.float32: Precision(converged=1e-9, certified=1e-8, unsupported=1e-7, jitter=1e-10),
    torch.float64: Precision(converged=1e-18, certified=1e-15, unsupported=1e-9, jitter=1e-15),
}


def precision(dtype: torch.dtype) -> Precision:
    """The tolerances of a floating dtype."""
    return _BY_DTYPE[dtype]


def cholesky(matrix: torch.Tensor, *, jitter: float) -> torch.Tensor:
    """Lower Cholesky factor of a symmetric matrix that is positive definite up to rounding."""
    scale = matrix.diagonal().mean().clamp(min=torch.finfo(matrix.dtype).tiny)
    eye = torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    for power in range(8):
        factor, failed = torch.linalg.cholesky_ex(matrix + eye * (scale * jitter * 100.0**power))
        if not failed.item():
            return factor
    raise ArithmeticError("the Gram matrix is far from positive definite: its entries are not finite")


def add_gram(V: torch.Tensor, gram: torch.Tensor, *, tile: int = 1024) -> None:
    """gram += V^T V, computing tiles on and below the diagonal only: half the work for wide V."""
    starts = range(0, V.shape[1], tile)
    for i in starts:
        for j in range(0, i + 1, tile):
            part = V[:, i : i + tile].T @ V[:, j : j + tile]
            gram[i : i + tile, j : j + tile] += part
            if i != j:
                gram[j : j + tile, i : i + tile] += part.T
