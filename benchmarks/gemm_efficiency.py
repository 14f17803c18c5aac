"""One Gauss-Newton product, V resident, against plain GEMMs of the same shapes, in the same run.

python benchmarks/gemm_efficiency.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point
from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec

SHAPES = [(8_000, 100, 20), (50_000, 100, 100), (61_440, 3072, 10)]  # p, d, rows


def seconds(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """Medians of both, in turn: what slows the machine for a while slows both."""
    took: tuple[list[float], list[float]] = ([], [])
    started = time.perf_counter()
    while len(took[0]) < 20 or time.perf_counter() - started < 2.0:
        for function, times in zip((first, second), took, strict=True):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
    return statistics.median(took[0]), statistics.median(took[1])


def main() -> None:
    print(f"{'p':>8} {'d':>6} {'rows':>5} {'dtype':>8} {'product ms':>11} {'GEMMs ms':>9} {'share':>6}")
    for p, d, m in SHAPES:
        for dtype in (torch.float32, torch.float64):
            features = RandomFeatures(
                RandomFeaturesSpec.describe(d, p, "relu", 0), dtype=dtype, memory=FeatureMemory(keep_bytes=1 << 34)
            )
            weights = torch.randn(1, p, generator=torch.Generator().manual_seed(0), dtype=dtype)
            problem = BlockwiseSpan(features, weights, radius=d**0.5, nuisance=True)
            state = problem.state(
                Point(problem.on_sphere(torch.randn(m, d, generator=torch.Generator().manual_seed(1), dtype=dtype)))
            )
            unknowns = (state.gradient, state.alpha, state.zeta)
            V = torch.cat([block.V for block in features.blocks()])
            left, right = torch.randn(m + 1, d, dtype=dtype), torch.randn(p, m + 1, dtype=dtype)

            def plain(V: torch.Tensor = V, left: torch.Tensor = left, right: torch.Tensor = right) -> None:
                V @ left.T
                right.T @ V

            ours, gemm = seconds(lambda p=problem, s=state, u=unknowns: p.gauss_newton_product(s, u), plain)
            name = str(dtype).removeprefix("torch.")
            print(f"{p:8d} {d:6d} {m:5d} {name:>8} {ours * 1e3:11.2f} {gemm * 1e3:9.2f} {gemm / ours:6.0%}", flush=True)


if __name__ == "__main__":
    main()
