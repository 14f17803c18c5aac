"""The measures: Eq. 12, Eq. 167, PSNR and SSIM for pictures, relative error per column for tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from exhume.linalg.precision import cholesky

_SSIM_WINDOW = 7


def rho(distance: torch.Tensor, d: int) -> float:
    """(1 / (n sqrt(d))) sum_i ||x_i - x^_i|| (Eq. 12)."""
    return float(distance.mean()) / math.sqrt(d)


Blocks = Callable[[torch.Tensor], Iterator[torch.Tensor]]  # rows (m, d) -> blocks (b, m) of their features


def span_residual(features: Blocks, truth: torch.Tensor, guess: torch.Tensor) -> float:
    """r = (1 / (n sqrt(p))) sum_i ||P_perp phi(x_i)||, P the span of the rebuilt rows' features (Eq. 167)."""
    gram, cross, p = torch.zeros(1), torch.zeros(1), 0
    for g, x in zip(features(guess), features(truth), strict=True):
        gram, cross, p = gram + g.double().T @ g.double(), cross + g.double().T @ x.double(), p + len(g)
    coefficients = torch.cholesky_solve(cross, cholesky(gram, jitter=1e-15))
    squares = torch.zeros(1)
    for g, x in zip(features(guess), features(truth), strict=True):  # the residual itself, not a cancelling difference
        squares = squares + ((x.double() - g.double() @ coefficients) ** 2).sum(0)
    return float(squares.sqrt().mean()) / math.sqrt(p)


def picture_quality(truth: np.ndarray, guess: np.ndarray) -> tuple[float, float]:
    """Mean PSNR in dB and mean SSIM of pictures (n, height, width, channels) in [0, 1]; identical ones count as 100 dB."""
    side = min(truth.shape[1:3])
    window = min(_SSIM_WINDOW, side if side % 2 else side - 1)
    psnr, ssim = [], []
    for a, b in zip(truth, guess, strict=True):
        equal = float(np.mean((a - b) ** 2)) < 1e-10
        psnr.append(100.0 if equal else float(peak_signal_noise_ratio(a, b, data_range=1.0)))
        ssim.append(
            float(equal) if window < 3 else float(structural_similarity(a, b, data_range=1.0, channel_axis=-1, win_size=window))
        )
    return float(np.mean(psnr)), float(np.mean(ssim))


def column_errors(truth: torch.Tensor, guess: torch.Tensor) -> tuple[float, ...]:
    """Median absolute error of every column of a table, relative to the column's spread."""
    spread = truth.std(0, unbiased=False)
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    return tuple(((truth - guess).abs() / spread).median(0).values.tolist())
