"""Synthetic data of Section 5.1: rows uniform on the sphere of radius sqrt(d), noisy linear labels."""

from __future__ import annotations

import math

import torch

from exhume.data.dataset import Dataset
from exhume.errors import ExhumeError
from exhume.linalg import streams

_NOISE = 0.5  # standard deviation: variance 0.25 in the paper


def sphere(*, d: int, n: int, seed: int) -> Dataset:
    """x uniform on sqrt(d) S^(d-1), y = x.g + eps with g ~ N(0, I/d), eps ~ N(0, 0.25)."""
    if d < 2 or n < 1:
        raise ExhumeError(f"sphere data needs d >= 2 and n >= 1, got d = {d}, n = {n}.")
    X = streams.random_directions(n, d, seed=seed, purpose="sphere") * math.sqrt(d)
    generator = streams.generator(seed, "sphere labels")
    g = torch.randn(d, generator=generator, dtype=torch.float64) / math.sqrt(d)
    y = X @ g + _NOISE * torch.randn(n, generator=generator, dtype=torch.float64)
    ones = torch.ones(d, dtype=torch.float64)
    return Dataset("sphere", X, y, "vector", 0 * ones, ones, (d,), input_norm=math.sqrt(d))
