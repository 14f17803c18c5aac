"""The measures: Eq. 12, Eq. 167, PSNR and SSIM for pictures, relative error per column for tables."""

from __future__ import annotations

import math

import numpy as np
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from exhume.features.spec import FeatureBlocks

_SSIM_WINDOW = 7
# Rows per column that are factorised at a time.
_QR_ROWS = 8


def rho(distance: torch.Tensor, d: int) -> float:
    """(1 / (n sqrt(d))) sum_i ||x_i - x^_i|| (Eq. 12)."""
    return float(distance.mean()) / math.sqrt(d)


def span_residual(features: FeatureBlocks, truth: torch.Tensor, guess: torch.Tensor) -> float:
    """r = (1 / (n sqrt(p))) sum_i ||P_perp phi(x_i)||, P the span of the rebuilt rows' features (Eq. 167)."""
    both, p = torch.cat([guess, truth]), 0
    waiting: list[torch.Tensor] = []
    for block in features(both):  # R of a QR factorisation, some blocks at a time: every feature is computed once
        waiting.append(block.double())
        p += len(block)
        if sum(map(len, waiting)) > _QR_ROWS * len(both):
            waiting = [torch.linalg.qr(torch.cat(waiting), mode="r")[1]]
    residuals = torch.linalg.qr(torch.cat(waiting), mode="r")[1][len(guess) :, len(guess) :]
    return float(residuals.norm(dim=0).mean()) / math.sqrt(p)


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
