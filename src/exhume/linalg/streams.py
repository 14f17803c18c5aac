"""Random numbers that depend on (seed, purpose, block) only: never on block grouping, threads, processes or device."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np
import torch

from exhume.linalg.blocks import slices
from exhume.parallel.threads import in_parallel

# Rows per stream block. A fixed multiple of 16, since torch.randn(100)[:50] differs from torch.randn(50).
STREAM_ROWS = 256
# Names of the recipes below, stored in every release: a later recipe gets another name.
BOX_MULLER = "torch-mt19937-rows256"
QUANTILES = "sfc64-half-quantiles"
STREAMS = (BOX_MULLER, QUANTILES)
# From this many numbers on, which memory seldom holds, the stream is the one that is drawn faster and kept in half the space.
_MANY = 10**9
# Numbers looked up at a time: their places stay in the cache.
_LOOKED_UP = 131_072


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


def normal_blocks(
    seed: int, purpose: str, blocks: range, columns: int, *, stream: str = BOX_MULLER, scale: float = 1.0
) -> torch.Tensor:
    """N(0, scale^2) values (STREAM_ROWS len(blocks), columns) of consecutive stream blocks: float32, or float16 for `QUANTILES`."""
    draw, dtype = (_quantiles, torch.float16) if stream == QUANTILES else (_box_muller, torch.float32)
    each = 1 if stream == BOX_MULLER else _generators(columns)
    values = torch.empty(len(blocks) * each, STREAM_ROWS // each, columns, dtype=dtype)
    # The threads write into memory that this one allocated: what they allocate themselves would stay with them.
    in_parallel(lambda i: draw(values[i], _key(seed, purpose, blocks.start * each + i), scale), range(len(values)))
    return values.flatten(0, 1)


def _generators(columns: int) -> int:
    """Generators that share a block of `QUANTILES`: a power of two, as many as leave each no more than 2^20 numbers."""
    return min(STREAM_ROWS, 1 << ((STREAM_ROWS * columns - 1) >> 20).bit_length())


def _box_muller(values: torch.Tensor, key: int, scale: float) -> None:
    values.normal_(generator=torch.Generator().manual_seed(key)).mul_(scale)


def _quantiles(values: torch.Tensor, key: int, scale: float) -> None:
    """One of 65,536 equally likely values each, by 16 random bits; in numpy, whose lookup stays in the thread that asks."""
    flat, table = values.view(-1).numpy(), _table(scale)
    bits = np.random.SFC64(key).random_raw(-(-flat.size // 4)).view(np.uint16)
    places = np.empty(min(flat.size, _LOOKED_UP), dtype=np.intp)
    for some in slices(flat.size, _LOOKED_UP):
        place = places[: some.stop - some.start]
        place[:] = bits[some]
        table.take(place, out=flat[some], mode="wrap")  # "raise" would go through a copy


@functools.cache
def _table(scale: float) -> np.ndarray[Any, np.dtype[np.float16]]:
    """Normal quantiles at the middles of 65,536 equal probabilities, of variance scale^2, each rounded to 16 bits."""
    middles = (torch.arange(65536, dtype=torch.float64) + 0.5) / 65536
    values = torch.special.ndtri(middles)
    return (values * (scale / values.square().mean().sqrt())).half().numpy()


def uniform_block(seed: int, purpose: str, block: int) -> torch.Tensor:
    """Uniform [0, 1) values, (STREAM_ROWS,) float32, of one stream block."""
    return torch.rand(STREAM_ROWS, generator=generator(seed, purpose, block))


def random_directions(count: int, d: int, *, seed: int, purpose: str, block: int = 0) -> torch.Tensor:
    """Rows drawn uniformly from the unit sphere, (count, d) float64."""
    rows = torch.randn(count, d, generator=generator(seed, purpose, block), dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)
