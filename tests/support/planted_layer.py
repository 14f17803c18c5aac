"""First layers whose change is known to be Delta X."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.attacks.factors.layer_change import LayerChange


@dataclass(frozen=True)
class Planted:
    """A change with the factors it was made of."""

    layer: LayerChange
    X: torch.Tensor  # (n, c), the last input 1 where there is a bias
    Delta: torch.Tensor  # (h, n)


def planted_layer(
    *, n: int = 6, d: int = 20, h: int = 90, biased: bool = False, noise: float = 0.0, switched: float = 0.0, seed: int = 0
) -> Planted:
    """Units are off for a sample on one side of it; a share of those near the boundary were on for a while."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64)
    X = torch.cat([X, torch.ones(n, 1, dtype=torch.float64)], dim=1) if biased else X
    W = torch.randn(h, X.shape[1], generator=generator, dtype=torch.float64)
    inner = W @ X.T
    on = inner > 0
    near = (~on) & (inner > torch.quantile(inner, 0.4))
    on |= near & (torch.rand(h, n, generator=generator) < switched)
    Delta = torch.where(on, torch.randn(h, n, generator=generator, dtype=torch.float64), 0.0)
    change = Delta @ X
    change = change + noise * change.norm() / change.numel() ** 0.5 * torch.randn(
        change.shape, generator=generator, dtype=torch.float64
    )
    alive = Delta.any(1)
    change, W, Delta, h = change[alive], W[alive], Delta[alive], int(alive.sum())
    return Planted(LayerChange(change, W, W, biased, h, 1.2e-7 if noise else 2.2e-16, "a planted change"), X, Delta)
