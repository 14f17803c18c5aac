"""A vision transformer in the manner of ViT-B/16, small enough for a laptop (Appendix E.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from exhume.architectures.pictures import square_picture

if TYPE_CHECKING:
    from exhume.architectures.spec import NetworkSpec

_LAYERS = 2
HEADS = 4  # of attention; widths are multiples of it
_POSITION_SPREAD = 0.02  # of the position embeddings at the start, as in ViT-B/16


def features_per_width(shape: tuple[int, ...]) -> int:
    """Tokens, each of which hands its whole embedding to the last layer."""
    return _grid(shape[-1]) ** 2


def initial_spread(spec: NetworkSpec, name: str, shape: tuple[int, ...]) -> float:
    """1 / sqrt(fan_in), and ViT-B/16's own spread for the position embeddings."""
    return _POSITION_SPREAD if name == "position" else 1 / math.sqrt(math.prod(shape[1:]))


def _grid(side: int) -> int:
    """Patches along a side: 8 of 4x4 pixels for CIFAR-10, 4 for small pictures."""
    return 8 if side >= 32 else 4


class _Attention(nn.Module):
    """Multi-head self-attention; written out, since the fused kernel has no forward-mode derivative."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        n, tokens, width = u.shape
        q, k, v = self.mix(u).reshape(n, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width / HEADS), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, tokens, width))


class _Layer(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        u = u + self.attention(self.norm1(u))
        return u + self.mlp(self.norm2(u))


class VisionTransformer(nn.Module):
    """Patches on a grid, two pre-norm layers, and a head on all tokens, so that p_L = tokens k width can pass d n."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        channels, side = square_picture("vit", spec.input_shape)
        patch = side // _grid(side)
        self.first = nn.Conv2d(channels, spec.width, patch, stride=patch)
        self.position = nn.Parameter(torch.zeros(1, _grid(side) ** 2, spec.width))
        self.layers = nn.Sequential(*(_Layer(spec.width) for _ in range(_LAYERS)))
        self.norm = nn.LayerNorm(spec.width)
        self.head = nn.Linear(spec.width * _grid(side) ** 2, spec.outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures (n, channels, side, side) -> outputs (n, k)."""
        tokens = self.first(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.norm(self.layers(tokens)).flatten(1))
