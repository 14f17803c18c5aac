"""Rows that stand for one sample: repeated ones, and those that share a linear cell of the features.

Between two of V's hyperplanes ReLU is linear, so a sample split into two rows of one cell leaves no residual: both rows fit, and n
does not. Such rows betray themselves: far fewer hyperplanes lie between them than between two directions at their angle.
"""

from __future__ import annotations

import math

import torch

from exhume.attacks.span.problem import Span, State
from exhume.linalg.blocks import slices

# Rows whose |cosine| is within this of 1 are one row. Set on the sphere problems of benchmarks/bars.py.
_SAME_DIRECTION = 0.005
# Row pairs with under half of the expected ReLU boundaries between them may be one split sample. Set on single samples of
# 760 and more dimensions (tests/contract/test_recovery.py).
SEPARATE = 0.5
_ROWS = 65536  # features at a time in float64


def repeated(X: torch.Tensor) -> torch.Tensor:
    """Whether two rows are one up to sign, (m, m)."""
    return _cosines(X).abs() > 1 - _SAME_DIRECTION


def crossings(problem: Span, state: State) -> torch.Tensor:
    """Hyperplanes of V between every two rows, up to sign, over the p angle / pi that random V puts there, (m, m)."""
    cosine = _cosines(state.X)
    gram = torch.zeros_like(cosine)
    for rows in slices(len(state.slopes), _ROWS):
        slopes = state.slopes[rows].double()
        gram += slopes.T @ slopes
    gram = problem.total(gram)
    sizes = gram.diagonal()
    crossed = (sizes + sizes[:, None] - 2 * cosine.sign() * gram).clamp(min=0)  # each adds the square of the kink
    expected = problem.p * problem.kink**2 * cosine.abs().clamp(max=1).acos() / math.pi
    share = crossed / expected.clamp(min=torch.finfo(crossed.dtype).tiny) if problem.kink else torch.ones_like(crossed)
    return share.fill_diagonal_(1.0)


def distinct_rows(same: torch.Tensor, costs: torch.Tensor) -> torch.Tensor:
    """Indices of rows, costliest first, without those that are the `same` (m, m) as a costlier one."""
    keep: list[int] = []
    for i in costs.argsort(descending=True).tolist():
        if not any(same[i, j] for j in keep):
            keep.append(i)
    return torch.tensor(keep, device=costs.device)


def merged(problem: Span, state: State, keep: list[int], same: torch.Tensor) -> torch.Tensor:
    """The rows to keep, each with those that go and are the `same`: sum_j alpha_j x_j, which fits as well in one linear cell."""
    if problem.radius is None:
        return state.X[keep]
    going = torch.ones(state.m, dtype=torch.bool, device=same.device)
    going[keep] = False
    sizes = state.alpha[keep].square().sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    weights = state.alpha[keep] @ state.alpha.T / sizes * _cosines(state.X)[keep].sign() * (same[keep] & going)
    return problem.on_sphere(state.X[keep] + (weights @ state.X.double()).to(state.X)).contiguous()


def _cosines(X: torch.Tensor) -> torch.Tensor:
    U = X.double() / X.double().norm(dim=1, keepdim=True)
    return U @ U.T
