"""Features act(V x + b) of a matrix V that is at hand: a trained first layer, or V Q for inputs x = Q z."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from exhume.features.activations import Activation, activation
from exhume.features.blocks import Block, BlockwiseFeatures
from exhume.linalg import streams
from exhume.linalg.blocks import block_rows, slices
from exhume.parallel.team import ALONE


class MatrixFeatures(BlockwiseFeatures):
    """phi(x) = act(V x + b) for a matrix V that is at hand as a whole."""

    team, drawn = ALONE, False

    def __init__(self, V: torch.Tensor, act: Activation, phase: torch.Tensor | None = None) -> None:
        self.activation = act
        self.dtype, self.device = V.dtype, V.device
        self.p, self.d = V.shape
        step = block_rows(self.d, V.element_size(), granule=streams.STREAM_ROWS)
        self._blocks = [Block(rows, V[rows], None if phase is None else phase[rows]) for rows in slices(self.p, step)]

    @staticmethod
    def of_layer(
        parameters: Mapping[str, torch.Tensor],
        act: str,
        *,
        alive: torch.Tensor,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
    ) -> MatrixFeatures:
        """The hidden layer of a two-layer network, without features that take no part; a bias is the phase of cosine features."""
        V, bias = parameters["first.weight"][alive].to(device, dtype), parameters.get("first.bias")
        return MatrixFeatures(V.contiguous(), activation(act), None if bias is None else bias[alive, None].to(device, dtype))

    def projected(self, basis: torch.Tensor) -> MatrixFeatures:
        """act(V Q z): features of inputs x = Q z as features of z."""
        Q = basis.to(self.device, self.dtype)
        phases = [block.phase for block in self._blocks if block.phase is not None]
        V = torch.cat([block.V @ Q for block in self._blocks])
        return MatrixFeatures(V, self.activation, torch.cat(phases) if phases else None)

    def whole_blocks(self, count: int) -> int:
        """All of them: they are at hand."""
        return self.p

    def blocks_within(self, count: int) -> int:
        """All or none."""
        return self.p if count >= self.p else 0

    def held(self, count: int) -> int:
        """All of them."""
        return self.p if count else 0

    def own(self, values: torch.Tensor) -> torch.Tensor:
        """All of them."""
        return values

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """Features start..stop in order."""
        last = self.p if stop is None else stop
        return (block for block in self._blocks if start <= block.rows.start < last)
