"""Columns of Delta by their zeros: under ReLU, Delta_ji is exactly zero wherever unit j was never on for sample i.

A column is a vector U q that vanishes on all units that were off for one sample, and it is the only one there. Which units those
are is a half-space of their weights, known as soon as the sample is known roughly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks.factors.column_space import ColumnSpace

# Entries within this many times their noise count as zero.
ZERO = 4.0
# Entries of a unit vector below this may be zeros that the Gram matrix of the search has blurred.
_BLUR = 1e-7
# Chance that a vector which is no column has its zeros by accident, as a power of ten.
_CHANCE = -6.0
# Times that a zero set is grown.
_GROWTH = 8
# Units whose noise makes an entry zero with more than this chance tell nothing.
_TELLING = 0.1
# At most so many zeros beyond r - 1 are demanded.
_MOST_EXTRA = 40
# A zero whose leverage comes this near to one is pivotal: without it the set would not fix the vector. Such a zero may be an
# accident of a combination of columns.
PIVOTAL = 1e-3
# Share of a column's zeros that may be on for its row at both ends: units that were off almost throughout.
MOST_ON = 0.1
# A zero set must fix its column also without the units that fix it best: this share of them, ...
_TRIMMED = 0.05
# ... and at least so many.
_LEAST_TRIMMED = 2
# Where a second direction stays below this many times the expected noise, the column is not the only one.
_UNIQUE = 5.0
# A unit loses its say in a null vector where its entry exceeds this many times the scale of zeros.
_TUNING = 3.0


def off_units(space: ColumnSpace, z: torch.Tensor, *, share: float) -> torch.Tensor:
    """For candidate samples x = V z (r, b) the units that are most off before and after training: (b, count), as many for each."""
    on = torch.maximum(space.start @ z, space.end @ z)
    off = int((on < 0).sum(0).median())
    count = min(max(round(share * off), space.r + 4), space.h)
    return on.topk(count, dim=0, largest=False).indices.T


def null_vectors(space: ColumnSpace, off: torch.Tensor, *, rounds: int) -> torch.Tensor:
    """Robust null vectors q (r, b): each minimises sum_j w_j (u_j q)^2 over its off units (b, count), w_j small where u_j q is
    large.

    Iteratively reweighted least squares: units that are off by mistake, or were on for a while, lose their say.
    """
    A, r = space.U[off], space.r  # (b, count, r)
    gram = A.transpose(1, 2) @ A
    q = torch.linalg.eigh(gram)[1][:, :, :1]
    identity = torch.eye(r, dtype=A.dtype, device=A.device)
    place = min(r + 4, A.shape[1])
    for _ in range(rounds):
        size = (A @ q).abs()[:, :, 0]
        # The scale of zeros: what r - 1 fitted entries leave behind, a few further on.
        scale = size.kthvalue(place, dim=1, keepdim=True).values.clamp(min=1e-14)
        weights = 1 / (1 + (size / (_TUNING * scale)).square())
        weighed = A * weights[:, :, None]
        gram = weighed.transpose(1, 2) @ weighed
        shift = 1e-13 * gram.diagonal(dim1=1, dim2=2).sum(1) / r
        factor = torch.linalg.cholesky_ex(gram + shift[:, None, None] * identity)[0]
        for _ in range(2):  # inverse iteration
            q = torch.cholesky_solve(q, factor)
            q = q / q.norm(dim=1, keepdim=True)
    return q[:, :, 0].T.contiguous()


@dataclass(frozen=True)
class Column:
    """A vector of the column space with its zeros."""

    q: torch.Tensor  # (r,) of unit length
    zero: torch.Tensor  # (h,) which units are zero


def candidate_zeros(space: ColumnSpace, q: torch.Tensor) -> torch.Tensor:
    """Which entries (h, b) of U q may be zeros: within their noise, or within what the Gram matrix of the search blurs."""
    return (space.U @ q).abs() < (ZERO * space.noise_of(q)).clamp(min=_BLUR)


def needed_extra(chances: torch.Tensor) -> int:
    """Zeros beyond the r - 1 that any vector can have which leave chance no room: C(h, extra) mean(p)^extra < 1e-6."""
    h, p = len(chances), min(max(float(chances.mean()), 1e-16), 1.0)
    for extra in range(2, _MOST_EXTRA):
        ways = math.lgamma(h + 1) - math.lgamma(extra + 1) - math.lgamma(h - extra + 1) if extra <= h else 0.0
        if ways / math.log(10) + extra * math.log10(p) < _CHANCE:
            return extra
    return _MOST_EXTRA


def exact_column(space: ColumnSpace, zero: torch.Tensor) -> Column | None:
    """The one vector that vanishes on (nearly) all of these units; None where there is none, too few zeros, or more than one.

    The set grows: what is fitted to few zeros is uncertain, so that further entries are zeros within that uncertainty. An entry
    u_j q of no meaning is about normal with spread |u_j| / sqrt(r); units that would be zero by chance too often tell nothing and
    are left out.
    """
    B, r = space.whitened, space.r
    spread = B.norm(dim=1) * math.sqrt(2 * math.pi / r)
    for _ in range(_GROWTH):
        if int(zero.sum()) < r:
            return None
        vectors, values = smallest_directions(B[zero])
        q = vectors[-1]
        noise = (q / space.S).norm()
        leverage = (B @ (vectors[:-1] / values[:-1, None].clamp(min=1e-3)).T).square().sum(1)
        # What a unit would be off by if the column were fitted to the others: those in the set have pulled it towards themselves.
        width = ZERO * noise * torch.where(zero, (1 - leverage).clamp(min=1e-6), 1 + leverage).sqrt()
        chances = (2 * width / spread).clamp(max=1.0)
        before, zero = zero, ((B @ q).abs() < width) & (chances < _TELLING)
        if torch.equal(before, zero):
            break
    telling = chances < _TELLING
    if int(zero.sum()) < r - 1 + needed_extra(chances[telling]) or float(leverage[zero].max()) > 1 - PIVOTAL:
        return None
    if not _unique(space, zero):
        return None
    return Column(q, zero)


def _unique(space: ColumnSpace, zero: torch.Tensor) -> bool:
    """Whether a zero set has one null vector only, also without the rows that speak most against a second one.

    The combination of two columns vanishes where both do, and there both alone vanish too; accidental zeros of the combination hide
    that, and are the few rows in which the second direction is large.
    """
    A = space.whitened[zero]
    count, r = A.shape
    drop = min(max(_LEAST_TRIMMED, int(_TRIMMED * count)), count - r)
    if drop < 1:
        return False
    vectors = smallest_directions(A)[0]
    for k in range(2, min(3, r) + 1):
        keep = (A @ vectors[-k]).square().argsort()[: count - drop]
        second, values = smallest_directions(A[keep])
        expected = float((second[-2] / space.S).norm()) * math.sqrt(len(keep))
        if float(values[-2]) < _UNIQUE * expected:
            return False
    return True


def smallest_directions(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Right singular vectors as rows and singular values, descending, by way of the triangular factor where A is tall."""
    R = torch.linalg.qr(A, mode="r")[1] if len(A) > A.shape[1] else A
    _, values, vectors = torch.linalg.svd(R, full_matrices=True)
    if len(values) < A.shape[1]:
        values = torch.cat([values, torch.zeros(A.shape[1] - len(values), dtype=A.dtype, device=A.device)])
    return vectors, values
