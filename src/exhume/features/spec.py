"""What an attacker is told of a model: one description per kind of model, with all that depends on the kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from exhume.features.blocks import BlockwiseFeatures
from exhume.parallel.team import ALONE, Team

Parameters = Mapping[str, torch.Tensor]
FeatureBlocks = Callable[[torch.Tensor], Iterator[torch.Tensor]]  # rows (m, d) -> blocks (b, m) of their features, float64


@dataclass(frozen=True)
class FeatureMemory:
    """Where features are computed and how much of them is kept."""

    device: torch.device | str = "cpu"
    keep_bytes: int = 0  # of V, in memory
    cache: Path | None = None  # a folder for blocks of V that memory does not hold
    team: Team = ALONE


class ModelSpec(ABC):
    """The public description of a model f(x) = theta phi(x): enough to compute its features from its released weights."""

    kind: ClassVar[str]  # the name under which files tell it from others
    shared_by_processes: ClassVar[bool] = False  # several processes can share the features of one run
    activation: str

    @property
    @abstractmethod
    def d(self) -> int:
        """Input dimension."""

    @property
    @abstractmethod
    def p(self) -> int:
        """Features that enter the last layer."""

    @property
    @abstractmethod
    def homogeneous(self) -> bool:
        """Whether phi(c x) = c phi(x) for c > 0: then the features hold directions only."""

    @property
    @abstractmethod
    def one_hidden_layer(self) -> bool:
        """Whether phi(x) = act(V x + b) for a known V: then the span problem needs no derivatives of a module."""

    @property
    @abstractmethod
    def first_weight(self) -> str | None:
        """Name of the first layer's weight among the parameters; None where there is none that sees inputs as they are."""

    @abstractmethod
    def header(self) -> dict[str, Any]:
        """The description as plain values, for files and for telling one run from another."""

    @abstractmethod
    def last_layer(self, weights: torch.Tensor, trained: Parameters) -> torch.Tensor:
        """The last layer as it was released, (k, p); `weights` is what training added to it."""

    @abstractmethod
    def features_stayed(self, trained: Parameters, initial: Parameters) -> bool:
        """Whether the last layer alone was trained, on features act(V x) that the attacker has."""

    @abstractmethod
    def fixed_features(
        self, trained: Parameters, *, alive: torch.Tensor, dtype: torch.dtype, memory: FeatureMemory
    ) -> BlockwiseFeatures:
        """phi block by block, where it stayed as it was while training; `alive` (p,) says which features take part."""

    @abstractmethod
    def feature_blocks(self, trained: Parameters, *, device: torch.device | str = "cpu") -> FeatureBlocks:
        """phi at the trained weights, in float64, for scores: V is drawn again rather than kept."""

    @abstractmethod
    def reordered(self, parameters: Parameters, order: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parameters with the last layer's features in another order: its weights then belong to other features."""

    @abstractmethod
    def in_words(self, initial: Parameters) -> str:
        """What the attacker knows of the features, for a page."""
