"""The ResNet of Appendix D.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from exhume.architectures.pictures import square_picture

if TYPE_CHECKING:
    from exhume.architectures.spec import NetworkSpec

_SIDE = 7  # of the feature maps after the first layer
_BLOCKS = 4


def features_per_channel(shape: tuple[int, ...]) -> int:
    """Numbers that one channel hands to the last layer."""
    return _SIDE**2


class _Residual(nn.Module):
    """B(u) = relu(u + C[relu(C[u])]) (Eq. 165)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.outer = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return torch.relu(u + self.outer(torch.relu(self.inner(u))))


class ResidualNetwork(nn.Module):
    """One large convolution down to 7x7, four residual blocks without batch norm, a linear head (Eq. 166)."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        channels, side = square_picture("resnet", spec.input_shape)
        # 28x28 for 32x32 pictures; other sizes get the kernel that also ends at 7x7.
        self.first = nn.Conv2d(channels, spec.width, side - _SIDE + 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*(_Residual(spec.width) for _ in range(_BLOCKS)))
        self.head = nn.Linear(spec.width * _SIDE**2, spec.outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures (n, channels, side, side) -> outputs (n, k)."""
        return self.head(self.blocks(self.first(x)).flatten(1))
