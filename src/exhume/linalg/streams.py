"""Random numbers that depend on (seed, purpose, block) only: never on block grouping, threads, processes or device."""

from __future__ import annotations

import hashlib

import torch

from exhume.linalg.threads import in_parallel

# Rows per stream block. A fixed multiple of 16, since torch.randn(100)[:50] differs from torch.randn(50).
STREAM_ROWS = 256
# Name of the recipe below, stored in every release: a later recipe gets another name.
STREAM_NAME = "torch-mt19937-rows256"


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


def normal_blocks(seed: int, purpose: str, blocks: range, columns: int) -> torch.Tensor:
    """Standard normal (STREAM_ROWS len(blocks), columns) float32 values of consecutive stream blocks."""
    values = torch.empty(len(blocks), STREAM_ROWS, columns)
    # The threads write into memory that this one allocated: what they allocate themselves would stay with them.
    in_parallel(lambda i: values[i].normal_(generator=generator(seed, purpose, blocks[i])), range(len(blocks)))
    return values.flatten(0, 1)


def uniform_block(seed: int, purpose: str, block: int) -> torch.Tensor:
    """Uniform [0, 1) values, (STREAM_ROWS,) float32, of one stream block."""
    return torch.rand(STREAM_ROWS, generator=generator(seed, purpose, block))


def random_directions(count: int, d: int, *, seed: int, purpose: str, block: int = 0) -> torch.Tensor:
    """Rows drawn uniformly from the unit sphere, (count, d) float64."""
    rows = torch.randn(count, d, generator=generator(seed, purpose, block), dtype=torch.float64)
    return rows / rows.norm(dim=1, keepdim=True)
