"""The rank of a matrix that is exact up to noise."""

from __future__ import annotations

import torch

# Neighbouring singular values apart by this factor end what is more than noise.
_GAP = 10.0
# Singular values below this many roundings of the largest have gaps of any size among them.
_ROUNDING = 10.0


def spectrum_of(matrix: torch.Tensor) -> torch.Tensor:
    """Singular values in float64, descending; columns of zeros are left out first, since they would end the spectrum by a gap."""
    return torch.linalg.svdvals(matrix[:, (matrix != 0).any(0)].double())


def rank_by_gap(spectrum: torch.Tensor, rounding: float) -> int | None:
    """How many singular values lie above the largest gap; None where there is no gap."""
    if not spectrum.numel() or not spectrum[0] > 0:
        return None
    values = spectrum / spectrum[0]
    beyond = torch.cat([values[1:], torch.zeros_like(values[:1])]).clamp(min=rounding / _ROUNDING)
    ratios = torch.where(values > _ROUNDING * rounding, values / beyond, 0.0)[:-1]
    if not ratios.numel():
        return None
    best = int(ratios.argmax())
    return best + 1 if ratios[best] > _GAP else None
