"""The rank of a matrix that is exact up to noise."""

from __future__ import annotations

import torch

# Singular values below this many roundings of the largest are rounding themselves.
_ROUNDING = 10.0


def spectrum_of(matrix: torch.Tensor) -> torch.Tensor:
    """Singular values in float64, descending; columns of zeros are left out first, since they would end the spectrum by a gap."""
    return torch.linalg.svdvals(matrix[:, (matrix != 0).any(0)].double())


def rank_by_gap(spectrum: torch.Tensor, rounding: float, *, gap: float = 10.0) -> int | None:
    """How many singular values lie above the largest gap; None where no two neighbours are apart by the factor `gap`."""
    if len(spectrum) < 2 or not spectrum[0] > 0:
        return None
    values = spectrum.clamp(min=_ROUNDING * rounding * float(spectrum[0]))
    ratios = values[:-1] / values[1:]
    best = int(ratios.argmax())
    return best + 1 if ratios[best] > gap else None
