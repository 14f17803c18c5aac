"""Every tolerance that depends on the dtype, in one place."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Precision:
    """Where sums in this dtype end: measured floors of the normalised loss ||P_perp theta||^2 / ||theta||^2."""

    converged: float  # a search may stop here: only rounding is left
    polished: float  # below this a further step moves rows by less than rounding does
    certified: float  # the floor within which a residual counts as zero in a certificate
    jitter: float  # relative ridge under a Cholesky factor


# A Gram matrix is summed in tiles of this many columns, ...
_TILE = 512
# ... and its partial sums move to float64 after this many rows.
_FLUSH_ROWS = 8192
_BY_DTYPE = {
    torch.float32: Precision(converged=3e-11, polished=2e-11, certified=1e-9, jitter=1e-10),
    torch.float64: Precision(converged=1e-18, polished=1e-27, certified=1e-15, jitter=1e-15),
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


class GramSum:
    """V^T V summed over blocks: products in V's dtype, sums of 8192 rows in float64, tiles below the diagonal only."""

    def __init__(self, columns: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self._partial = torch.zeros(columns, columns, dtype=dtype, device=device)
        self._total = torch.zeros(columns, columns, dtype=torch.float64, device=device)
        self._rows = 0

    def add(self, V: torch.Tensor) -> None:
        """Add V^T V of one block."""
        for i in range(0, V.shape[1], _TILE):
            left = V[:, i : i + _TILE].T
            self._partial[i : i + _TILE, : i + _TILE].addmm_(left, V[:, : i + _TILE])
        self._rows += V.shape[0]
        if self._rows >= _FLUSH_ROWS:
            self._flush()

    def _flush(self) -> None:
        self._total += self._partial
        self._partial.zero_()
        self._rows = 0

    def copy(self) -> GramSum:
        """A sum that goes on by itself."""
        other = copy.copy(self)
        other._partial, other._total = self._partial.clone(), self._total.clone()
        return other

    def value(self) -> torch.Tensor:
        """The symmetric sum so far, float64."""
        total = self._total + self._partial  # not flushed: the sum must not depend on when it was asked for
        return total.tril() + total.tril(-1).T
