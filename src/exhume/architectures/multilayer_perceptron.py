"""Dense layers of any number and width, with or without biases: the network that most people mean by one."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import nn

from exhume.features.activations import activation

if TYPE_CHECKING:
    from exhume.architectures.spec import NetworkSpec


class MultilayerPerceptron(nn.Module):
    """f(x) = W_L act(... act(W_1 x + b_1) ...) + b_L."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        widths = spec.widths or (spec.width,)
        self.first = nn.Linear(spec.d, widths[0], bias=spec.biased)
        self.hidden = nn.ModuleList(nn.Linear(before, after, bias=spec.biased) for before, after in pairwise(widths))
        self.head = nn.Linear(widths[-1], spec.outputs, bias=spec.head_biased)
        self.act = activation(spec.activation).value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs (n, ...) -> outputs (n, k)."""
        u = self.act(self.first(x.flatten(1)))
        for layer in self.hidden:
            u = self.act(layer(u))
        return self.head(u)


def start_like_torch(graph: nn.Module, name: str, generator: torch.Generator) -> torch.Tensor:
    """A weight or bias before training, as torch.nn.Linear draws it: uniform within 1 / sqrt(fan_in)."""
    layer, _, _ = name.rpartition(".")
    weight = graph.get_parameter(f"{layer}.weight")
    bound = 1 / math.sqrt(weight.shape[1])
    return (2 * torch.rand(graph.get_parameter(name).shape, generator=generator, dtype=torch.float64) - 1) * bound
