"""What to expect of p, d and n before any attack runs: counting, and the transition as it was measured here."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from exhume import counting
from exhume.errors import ExhumeError
from exhume.features import activation, read_activation

# Share of seeds in which gauss-newton rebuilt and certified every row without being told n (sphere, d = 100, n = 20, ReLU,
# float64): `python benchmarks/transition.py --ratios 1.25 1.5 1.75 --seeds 5`, and at 2, 3 and 4 ten seeds of
# `python benchmarks/bars.py sphere-2 sphere-3 sphere-4`.
MEASURED: tuple[tuple[float, float], ...] = ((1.25, 0.0), (1.5, 0.8), (1.75, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0))
# Share of seeds in which first-layer rebuilt and certified every row without being told n, by hidden units per sample (sphere,
# d = 100, n = 20, ReLU, one output, float64): ten seeds each of `python benchmarks/bars.py mlp-60 mlp-80 mlp-120 mlp-200`.
MEASURED_FIRST_LAYER: tuple[tuple[float, float], ...] = ((3.0, 0.1), (4.0, 1.0), (6.0, 1.0), (10.0, 1.0))
# Median GEMM passes of those runs lie between 1146 and 1746: a typical attack's length.
_TYPICAL_PASSES = 1500


@dataclass(frozen=True)
class Expectation:
    """The law applied to one model."""

    p: int
    d: int
    n: int
    activation: str
    ratio: float  # p / (d n)
    interpolates: bool  # p >= n
    equations: int
    unknowns: int
    determined: bool  # equations exceed unknowns by the certificate's margin
    outcome: str  # "impossible", "possible", "unlikely", "likely", "expected"
    sentence: str
    measured_rate: float | None  # recovery rate measured at the nearest ratio below
    sign: str
    scale: str
    memory_gb: float  # V in float32, if it were held
    seconds: float  # a typical attack on this machine
    gemm_gflops: float


@dataclass(frozen=True)
class FirstLayerExpectation:
    """What the change of a dense first layer with a ReLU behind it tells of n samples."""

    hidden_per_sample: float  # h / n
    weights_per_coordinate: float  # h (d + 1) / (d n)
    outcome: str  # "impossible", "unlikely", "possible", "likely", "expected"
    sentence: str
    measured_rate: float | None  # recovery rate measured at the nearest h / n below


def expect_first_layer(h: int, d: int, n: int) -> FirstLayerExpectation:
    """Counting n (n - 1) unknowns against h n / 2 exact zeros, and the measured rate beyond that.

    >>> expect_first_layer(512, 3072, 20).outcome
    'expected'
    """
    for name, value in (("hidden units", h), ("d", d), ("n", n)):
        if value < 1:
            raise ExhumeError(f"{name} must be at least 1, got {value}.")
    share = h / n
    rate = max(((x, y) for x, y in MEASURED_FIRST_LAYER if x <= share), default=(0.0, None))[1]
    if n > d:
        outcome, sentence = "impossible", "more samples than inputs: the rank of the first layer's change does not tell them apart."
    elif h * n < 2 * n * (n - 1):
        outcome = "impossible"
        sentence = f"{h} units give about {h * n // 2} exact zeros, too few for the {n * (n - 1)} unknowns of {n} columns."
    elif rate is None:
        outcome, sentence = "possible", "the count of zeros allows it, but h / n is below the lowest that was measured: try it."
    else:
        outcome = "expected" if rate >= 0.9 else "likely" if rate >= 0.5 else "unlikely"
        sentence = f"first-layer rebuilt everything in {rate:.0%} of the runs measured at this h / n or just below."
    return FirstLayerExpectation(share, h * (d + 1) / (d * n), outcome, sentence, rate)


def expect(p: int, d: int, n: int, act: str = "relu") -> Expectation:
    """Counting p equations against n (d - 1) coordinates and n coefficients, and the measured rate beyond that."""
    for name, value in (("p", p), ("d", d), ("n", n)):
        if value < 1:
            raise ExhumeError(f"{name} must be at least 1, got {value}.")
    reading = read_activation(activation(act))
    ratio, unknowns = p / (d * n), counting.unknowns(n, d, 1, on_sphere=True)
    determined = counting.margin(p, unknowns) >= counting.MARGIN
    rate = max(((r, share) for r, share in MEASURED if r <= ratio), default=(0.0, None))[1]
    if p < n:
        outcome, sentence = "impossible", "p < n: the model cannot even fit its labels."
    elif not determined:
        outcome = "impossible"
        sentence = f"{p} equations cannot pin down {unknowns} unknowns: labels are memorised, samples are not; never certified."
    elif rate is None:
        outcome = "possible"
        sentence = "the count of equations allows it, but the ratio is below the lowest that was measured: try it."
    else:
        outcome = "expected" if rate >= 0.9 else "likely" if rate >= 0.5 else "unlikely"
        sentence = f"gauss-newton rebuilt everything in {rate:.0%} of the runs measured at this ratio or just below."
    used = min(p, int(3.75 * d * n))
    rate_gemm = _gemm_gflops()
    return Expectation(
        p=p,
        d=d,
        n=n,
        activation=act,
        ratio=ratio,
        interpolates=p >= n,
        equations=p,
        unknowns=unknowns,
        determined=determined,
        outcome=outcome,
        sentence=sentence,
        measured_rate=rate,
        sign=reading.sign_reason if reading.sign_identifiable else f"hidden: {reading.sign_reason}",
        scale=reading.scale_reason,
        memory_gb=4 * p * d / 1e9,
        seconds=_TYPICAL_PASSES * 2 * used * d * n / (rate_gemm * 1e9),
        gemm_gflops=rate_gemm,
    )


def _gemm_gflops() -> float:
    """Float32 GEMM rate of this machine on a tall block, in GFLOP/s."""
    a, b = torch.ones(4096, 256), torch.ones(256, 64)
    a @ b
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < 0.05:
        a @ b
        count += 1
    return count * 2 * 4096 * 256 * 64 / (time.perf_counter() - start) / 1e9
