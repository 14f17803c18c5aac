"""The two-layer network of Section 5.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from exhume.features.activations import activation

if TYPE_CHECKING:
    from exhume.architectures.spec import NetworkSpec


class TwoLayer(nn.Module):
    """f(x) = theta2 act(theta1 x), ReLU unless the specification says otherwise."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.first = nn.Linear(spec.d, spec.width, bias=spec.biased)
        self.head = nn.Linear(spec.width, spec.outputs, bias=spec.head_biased)
        self.act = activation(spec.activation).value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs (n, ...) -> outputs (n, k)."""
        return self.head(self.act(self.first(x.flatten(1))))
