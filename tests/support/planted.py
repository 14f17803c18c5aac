"""Span problems whose answer is written down: rows with chosen coefficients, and the weights that they make."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import TypeVar

import torch

from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec
from exhume.storage.records import pack, unpack

Record = TypeVar("Record")


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sphere_rows(n: int, d: int, *, seed: int = 0) -> torch.Tensor:
    """Rows of norm sqrt(d)."""
    X = drawn(n, d, seed=seed)
    return X * (math.sqrt(d) / X.norm(dim=1, keepdim=True))


def coefficients(n: int, k: int = 1, *, seed: int = 7) -> torch.Tensor:
    """Coefficients of either sign, none of them near zero, (n, k)."""
    values = drawn(n, k, seed=seed)
    return values.sign() * (0.5 + values.abs())


@cache
def features_of(d: int, p: int, activation: str = "relu") -> RandomFeatures:
    """Random features in float64, V in memory; made once, since their Hermite coefficients take a second."""
    spec = RandomFeaturesSpec.describe(d, p, activation, 0)
    return RandomFeatures(spec, dtype=torch.float64, memory=FeatureMemory(keep_bytes=1 << 28))


def matrix_of(problem: BlockwiseSpan) -> torch.Tensor:
    """V as a whole, (p, d)."""
    return torch.cat([block.V for block in problem.blocks()])


def phi(features: RandomFeatures, X: torch.Tensor) -> torch.Tensor:
    """The features of rows, (p, m)."""
    return torch.cat(list(features.values(X)))


def planted(
    X: torch.Tensor,
    alpha: torch.Tensor | None = None,  # (n, k)
    *,
    p: int,
    activation: str = "relu",
    nuisance: bool = True,
    free: bool = False,  # norms are unknowns too
    noise: float = 0.0,  # added to the weights, as a share of their length
    norm_bound: float = math.inf,
) -> BlockwiseSpan:
    """The problem whose weights are made of the rows X; `alpha` None draws their coefficients."""
    d = X.shape[1]
    features = features_of(d, p, activation)
    weights = (phi(features, X) @ (coefficients(len(X)) if alpha is None else alpha)).T
    error = drawn(*weights.shape, seed=99)
    weights = weights + noise * weights.norm() / error.norm() * error
    radius = None if free else math.sqrt(d)
    return BlockwiseSpan(features, weights, radius=radius, nuisance=nuisance, norm_bound=norm_bound)


def nearby(problem: BlockwiseSpan, X: torch.Tensor, error: float, *, seed: int = 5) -> torch.Tensor:
    """Rows at about that relative distance from X, as the problem allows them."""
    return problem.on_sphere(X + error * drawn(*X.shape, seed=seed) * X.norm(dim=1, keepdim=True) / math.sqrt(X.shape[1]))


def worst_distance(found: torch.Tensor, true: torch.Tensor, *, up_to_sign: bool = False) -> float:
    """How far the worst true row is from the nearest row found, relative to its norm."""
    both = torch.cat([found, -found]) if up_to_sign else found
    return float((torch.cdist(true, both).min(dim=1).values / true.norm(dim=1)).max())


def through_a_file(record: Record) -> Record:
    """A record as it comes back from a file."""
    tensors, values = pack(record)
    kept = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    return unpack(type(record), kept, json.loads(json.dumps(values)))
