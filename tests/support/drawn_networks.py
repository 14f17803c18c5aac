"""Networks that have not been trained: their weights are drawn, and drawn again for those after training."""

from __future__ import annotations

import torch

from exhume.architectures import NetworkSpec, describe_network, initial_parameters
from exhume.release import Release

PICTURE = (1, 8, 8)


def weights(spec: NetworkSpec, seed: int = 0) -> dict[str, torch.Tensor]:
    """Parameters of a network, none of them special: biases and norms are drawn as well."""
    draw = torch.Generator().manual_seed(seed)
    start = initial_parameters(spec, seed=seed, dtype=torch.float64)
    return {name: value + 0.1 * torch.randn(value.shape, generator=draw, dtype=torch.float64) for name, value in start.items()}


def network_release(name: str, shape: tuple[int, ...] = PICTURE, *, outputs: int = 2, last_layer: int = 200) -> Release:
    """A network whose weights before and after training are unrelated."""
    spec = describe_network(name, shape, outputs=outputs, last_layer=last_layer)
    start, end = weights(spec, 0), weights(spec, 1)
    return Release(end["head.weight"] - start["head.weight"], spec, trained=end, initial=start)


def rows(m: int, d: int = 64, seed: int = 0) -> torch.Tensor:
    return torch.randn(m, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
