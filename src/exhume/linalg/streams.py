"""Random numbers that depend on (seed, purpose, block) only: never on block grouping, threads, processes or device."""

from __future__ import annotations

import functools
import hashlib

import numpy as np
import torch

from exhume.linalg.blocks import slices
from exhume.linalg.threads import in_parallel

# Rows per stream block. A fixed multiple of 16, since torch.randn(100)[:50] differs from torch.randn(50).
STREAM_ROWS = 256
# Names of the recipes below, stored in every release: a later recipe gets another name.
BOX_MULLER, QUANTILES = "torch-mt19937-rows256", "sfc64-quantile16-rows256"
STREAMS = (BOX_MULLER, QUANTILES)
# From this many numbers on, which memory seldom holds, the stream is the one that is drawn twice as fast.
_MANY = 10**9
# Numbers looked up at a time: their places stay in the cache, and torch does not share out so few among threads of its own.
_LOOKED_UP = 32768


def _key(seed: int, purpose: str, block: int) -> int:
    """A 32-bit generator seed; within one (seed, purpose) no two blocks share it, since the mixing is a bijection."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    x = (int.from_bytes(digest[:4], "little") + block) & 0xFFFFFFFF
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):  # murmur3's finaliser
        x = ((x ^ (x >> shift)) * factor) & 0xFFFFFFFF
    return x ^ (x >> 16)


def generator(seed: int, purpose: str, block: int = 0) -> torch.Generator:
    """A CPU generator for (seed, purpose, block)."""
    return torch.Generator().manual_seed(_key(seed, purpose, block))


def stream_for(numbers: int) -> str:
    """The recipe for a matrix of so many numbers."""
    return QUANTILES if numbers >= _MANY else BOX_MULLER


def normal_blocks(seed: int, purpose: str, blocks: range, columns: int, stream: str = BOX_MULLER) -> torch.Tensor:
    """Standard normal (STREAM_ROWS len(blocks), columns) float32 values of consecutive stream blocks."""
    values = torch.empty(len(blocks), STREAM_ROWS, columns)
    # The threads write into memory that this one allocated: what they allocate themselves would stay with them.
    draw = _quantiles if stream == QUANTILES else _box_muller
    in_parallel(lambda i: draw(values[i], _key(seed, purpose, blocks[i])), range(len(blocks)))
    return values.flatten(0, 1)


def _box_muller(values: torch.Tensor, key: int) -> None:
    values.normal_(generator=torch.Generator().manual_seed(key))


def _quantiles(values: torch.Tensor, key: int) -> None:
    """One of 65,536 equally likely values each, by 16 random bits."""
    flat, table = values.view(-1), _table()
    bits = torch.from_numpy(np.random.SFC64(key).random_raw(-(-flat.numel() // 4)).view(np.int16))
    places = torch.empty(_LOOKED_UP, dtype=torch.int32)
    for some in slices(flat.numel(), _LOOKED_UP):
        place = places[: some.stop - some.start]
        torch.index_select(table, 0, place.copy_(bits[some]).add_(len(table) // 2), out=flat[some])


@functools.cache
def _table() -> torch.Tensor:
    """Normal quantiles at the middles of 65,536 equal probabilities, scaled to variance 1: fourth moment 2.9992, largest 4.32."""
    middles = (torch.arange(65536, dtype=torch.float64) + 0.5) / 65536
    values = torch.special.ndtri(middles)
    return (values / values.square().mean().sqrt()).float()


def uniform_block(seed: int, purpose: str, block: int) -> torch.Tensor:
    """Uniform [0, 1) values, (STREAM_ROWS,) float32, of one stream block."""
    return torch.rand(STREAM_ROWS, generator=generator(seed, purpose, block))


def random_directions(count: int, d: int, *, seed: int, purpose: str, block: int = 0) -> torch.Tensor:
    """Rows drawn uniformly from the unit sphere, (count, d) float64."""
    rows = torch.randn(count, d, generator=generator(seed, purpose, block), dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)
