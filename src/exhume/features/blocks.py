"""Features act(V x + b) block by block: what every span problem over them needs to know."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from exhume.features.activations import Activation
from exhume.features.hermite import hermite_coefficients
from exhume.parallel.team import Team


@dataclass(frozen=True)
class Block:
    """A run of features: rows of V, and for phased features the phase with its even and odd weights."""

    rows: slice
    V: torch.Tensor  # (b, d)
    phase: torch.Tensor | None = None  # (b, 1)

    @property
    def even(self) -> torch.Tensor | None:
        """Weight cos b of the even Hermite part, (b, 1); None means 1."""
        return None if self.phase is None else torch.cos(self.phase)

    @property
    def odd(self) -> torch.Tensor | None:
        """Weight sin b of the odd Hermite part, (b, 1); None means 1."""
        return None if self.phase is None else torch.sin(self.phase)

    def preactivation(self, X: torch.Tensor) -> torch.Tensor:
        """V x + b for every row of X, (b, m)."""
        Z = self.V @ X.T
        return Z if self.phase is None else Z + self.phase


class BlockwiseFeatures(ABC):
    """phi(x) = act(V x + b), of which this process holds some blocks and its team the rest."""

    activation: Activation
    dtype: torch.dtype
    device: torch.device
    p: int  # features, of all processes
    d: int
    team: Team
    drawn: bool  # V is random and isotropic, so that sums over features are near their expectation

    @cached_property
    def mean_slope(self) -> float:
        """mu_1 = E[phi'(g)], relative to the odd weight where features have a phase."""
        act = self.activation
        return -math.sqrt(2.0) * math.exp(-0.5) if act.phase else hermite_coefficients(act, 1)[1]

    @abstractmethod
    def whole_blocks(self, count: int) -> int:
        """The smallest number of features >= count that ends at a block's end (or at p)."""

    @abstractmethod
    def blocks_within(self, count: int) -> int:
        """The largest number of features <= count that ends at a block's end."""

    @abstractmethod
    def held(self, count: int) -> int:
        """How many of the first `count` features (in whole blocks) this process holds."""

    @abstractmethod
    def own(self, values: torch.Tensor) -> torch.Tensor:
        """Of values over the features (..., p) those that this process holds."""

    @abstractmethod
    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Features start..stop that this process holds, both at a block's end, their rows counted among those held."""

    def values(self, X: torch.Tensor) -> Iterator[torch.Tensor]:
        """phi of every row of X, block by block, (b, m)."""
        return (self.activation.value(block.preactivation(X)) for block in self.blocks())
