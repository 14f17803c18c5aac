"""Synthetic data of Section 5.1: rows uniform on the sphere of radius sqrt(d), noisy linear labels."""

from __future__ import annotations

import math

import torch

from exhume.data.dataset import Dataset
from exhume.errors import ExhumeError
from exhume.linalg import streams

_NOISE = 0.5  # standard deviation: variance 0.25 in the paper


def sphere(*, d: int, n: int, seed: int, rank: int | None = None) -> Dataset:
    """x uniform on sqrt(d) S^(d-1) (in a random subspace of `rank` dimensions), y = x.g + eps, g ~ N(0, I/d), eps ~ N(0, 0.25)."""
    if d < 2 or n < 1:
        raise ExhumeError(f"sphere data needs d >= 2 and n >= 1, got d = {d}, n = {n}.")
    if rank is not None and not 2 <= rank <= d:
        raise ExhumeError(f"sphere data of rank {rank}: expected 2 to d = {d}.")
    X = streams.random_directions(n, rank or d, seed=seed, purpose="sphere") * math.sqrt(d)
    if rank is not None:
        basis = torch.linalg.qr(streams.random_directions(rank, d, seed=seed, purpose="subspace").T)[0]
        X = X @ basis.T
    generator = streams.generator(seed, "sphere labels")
    g = torch.randn(d, generator=generator, dtype=torch.float64) / math.sqrt(d)
    y = X @ g + _NOISE * torch.randn(n, generator=generator, dtype=torch.float64)
    ones = torch.ones(d, dtype=torch.float64)
    return Dataset("sphere", X, y, "vector", 0 * ones, ones, (d,), input_norm=math.sqrt(d))
