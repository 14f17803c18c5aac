"""Which rebuilt row belongs to which true row: a linear assignment, with or without forgiving the sign."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment


@dataclass(frozen=True)
class Matching:
    """For every true row its rebuilt row (or None), the sign that was forgiven, and the distance left."""

    index: tuple[int | None, ...]
    sign: tuple[int, ...]
    distance: torch.Tensor  # (n,); a missing row counts as an all-zero guess

    def rows(self, guess: torch.Tensor) -> torch.Tensor:
        """Rebuilt rows in the order of the truth, zero where missing, signs as matched."""
        empty = torch.zeros_like(guess[:1]) if len(guess) else guess.new_zeros(1, guess.shape[1])
        picked = [empty[0] if i is None else guess[i] * s for i, s in zip(self.index, self.sign, strict=True)]
        return torch.stack(picked)


def match(truth: torch.Tensor, guess: torch.Tensor, *, forgive_sign: bool) -> Matching:
    """min over permutations of sum_i ||x_i - x^_pi(i)|| (Eq. 12), the sign minimised per sample where forgiven."""
    X, G = truth.double(), guess.double()
    plus = torch.cdist(X, G, compute_mode="donot_use_mm_for_euclid_dist")
    minus = torch.cdist(X, -G, compute_mode="donot_use_mm_for_euclid_dist") if forgive_sign else plus
    cost = torch.minimum(plus, minus)
    rows, columns = linear_sum_assignment(cost.numpy())
    index: list[int | None] = [None] * len(X)
    sign = [1] * len(X)
    distance = X.norm(dim=1)
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        index[i], distance[i] = j, cost[i, j]
        sign[i] = -1 if minus[i, j] < plus[i, j] else 1
    return Matching(tuple(index), tuple(sign), distance)
