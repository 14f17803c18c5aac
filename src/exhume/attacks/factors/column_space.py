"""Where the columns of Delta lie, and what the noise of the weights leaves of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from exhume.attacks.factors.layer_change import LayerChange

# Error of an entry of U q that singular value decompositions in float64 leave, measured on networks trained in float64.
_ARITHMETIC = 2.5e-14

# A unit's change must exceed its noise by this factor.
_AUDIBLE = 5.0


@dataclass(frozen=True)
class SampleSpan:
    """The span of the samples: orthonormal directions, and the noise of the change outside of it."""

    basis: torch.Tensor  # (c, r): x = basis z
    noise: torch.Tensor  # (h,) root mean square error of an entry of each unit's row of the change


@dataclass(frozen=True)
class ColumnSpace:
    """The change inside the row space, every unit divided by a weight: change_j / w_j = u_j S V^T.

    A column of Delta is U q (divided by the weights). Its *dual* is y = V q / S, the one direction with (change / w) y = U q: since
    change = Delta X, the duals of all samples are the columns of X^-1.
    """

    U: torch.Tensor  # (h, r) orthonormal
    S: torch.Tensor  # (r,)
    V: torch.Tensor  # (r, r) turns coordinates of the row space
    noise: torch.Tensor  # (h,) of the weighed change, or of the arithmetic here where that is more
    start: torch.Tensor  # (h, r) preactivation of V's directions before training
    end: torch.Tensor  # (h, r) and after it

    @property
    def h(self) -> int:
        """Units."""
        return self.U.shape[0]

    @property
    def r(self) -> int:
        """Samples."""
        return self.U.shape[1]

    def noise_of(self, q: torch.Tensor) -> torch.Tensor:
        """Root mean square error of every entry of the columns U q, (h, b) for q (r, b)."""
        return self.noise[:, None] * (q / self.S[:, None]).norm(dim=0)

    @cached_property
    def whitened(self) -> torch.Tensor:
        """U with every row divided by its noise: entries of a column then have the error |q / S| everywhere."""
        return self.U / self.noise[:, None]

    def dual(self, q: torch.Tensor) -> torch.Tensor:
        """q (r, b) -> y in coordinates of the row space."""
        return self.V @ (q / self.S[:, None])

    def column(self, y: torch.Tensor) -> torch.Tensor:
        """y (r, b) -> q, of unit length."""
        q = self.S[:, None] * (self.V.T @ y)
        return q / q.norm(dim=0)


def sample_span(layer: LayerChange, rank: int) -> SampleSpan:
    """The leading right singular vectors of the change."""
    _, _, Vt = torch.linalg.svd(layer.change, full_matrices=False)
    basis = Vt[:rank].T.contiguous()
    outside = layer.change - (layer.change @ basis) @ basis.T
    inputs = int((layer.change != 0).any(0).sum())
    noise = outside.norm(dim=1) / math.sqrt(max(1, inputs - rank))
    return SampleSpan(basis, noise)


def audible(layer: LayerChange, space: SampleSpan) -> torch.Tensor:
    """Which units (h,) changed by more than noise: the others took no part in training, and their zeros prove nothing."""
    signal = (layer.change @ space.basis).norm(dim=1)
    return signal > _AUDIBLE * space.noise * math.sqrt(space.basis.shape[1])


def column_space(layer: LayerChange, space: SampleSpan, *, equalise: bool) -> ColumnSpace:
    """The column space; `equalise` gives every unit the same weight, else strong units count more."""
    sizes = layer.change.norm(dim=1)
    weights = sizes if equalise else torch.full_like(sizes, float(sizes.mean()))
    U, S, Wt = torch.linalg.svd((layer.change @ space.basis) / weights[:, None], full_matrices=False)
    directions = space.basis @ Wt.T
    noise = (space.noise / weights).clamp(min=_ARITHMETIC * float(S[0]))
    return ColumnSpace(U, S, Wt.T.contiguous(), noise, layer.start @ directions, layer.end @ directions)
