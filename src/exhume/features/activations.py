"""The activations: value, slope, and what their shape implies for an attack."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from exhume.errors import unknown_name

Elementwise = Callable[[torch.Tensor], torch.Tensor]

_SQRT2 = math.sqrt(2.0)
_LEAK = 0.01  # PyTorch's default negative slope


@dataclass(frozen=True)
class Activation:
    """One elementwise non-linearity phi with the facts that attacks branch on."""

    name: str
    formula: str
    value: Elementwise
    slope: Elementwise
    parity: str  # "even", "odd", "linear-odd" (odd part exactly c*z), or "mixed"
    odd_slope: float = 0.0  # c, where parity is "linear-odd"
    homogeneous: bool = False  # phi(s z) = s phi(z) for s > 0
    phase: bool = False  # features are phi(Vx + b) with b uniform on the circle (Rahimi-Recht)

    @property
    def kink(self) -> float:
        """The jump of the slope at 0 of a function that is linear on both sides; 0 for all others."""
        ends = self.slope(torch.tensor([-1.0, 1.0], dtype=torch.float64))
        return float(ends[1] - ends[0]) if self.homogeneous else 0.0


def _gelu_slope(z: torch.Tensor) -> torch.Tensor:
    return 0.5 * (1 + torch.erf(z / _SQRT2)) + z * torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)


_ALL = (
    Activation("relu", "max(z, 0)", torch.relu, lambda z: (z > 0).to(z.dtype), "linear-odd", 0.5, homogeneous=True),
    Activation(
        "leaky-relu",
        f"max(z, {_LEAK} z)",
        lambda z: torch.nn.functional.leaky_relu(z, _LEAK),
        lambda z: torch.where(z > 0, 1.0, _LEAK).to(z.dtype),
        "linear-odd",
        (1 + _LEAK) / 2,
        homogeneous=True,
    ),
    Activation("abs", "|z|", torch.abs, torch.sign, "even", homogeneous=True),
    Activation(
        "gelu",
        "z Phi(z), Phi the normal distribution function",
        lambda z: z * 0.5 * (1 + torch.erf(z / _SQRT2)),
        _gelu_slope,
        "linear-odd",
        0.5,
    ),
    Activation("tanh", "tanh(z)", torch.tanh, lambda z: 1 - torch.tanh(z) ** 2, "odd"),
    Activation("erf", "erf(z)", torch.erf, lambda z: 2 / math.sqrt(math.pi) * torch.exp(-z * z), "odd"),
    Activation(
        "relu+tanh",
        "max(z, 0) + tanh(z)",
        lambda z: torch.relu(z) + torch.tanh(z),
        lambda z: (z > 0).to(z.dtype) + 1 - torch.tanh(z) ** 2,
        "mixed",
    ),
    Activation(
        "cosine",
        "sqrt(2) cos(z + b), b uniform on [0, 2 pi)",
        lambda z: _SQRT2 * torch.cos(z),
        lambda z: -_SQRT2 * torch.sin(z),
        "mixed",
        phase=True,
    ),
)
ACTIVATIONS = {one.name: one for one in _ALL}


def activation(name: str) -> Activation:
    """The registered activation of that name."""
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]
