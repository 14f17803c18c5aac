"""Rows that may be superfluous: the search tries to do without them, and takes them back where that does harm.

Set on a sphere of 600 dimensions and on seeds 4 and 7 of `benchmarks/bars.py sphere-n100`.
"""

from __future__ import annotations

import torch

# A row that may go for this much loss is doubtful.
_DOUBTFUL = 1e-4
# Having done without rows, a loss above this multiple of the one before means that they were needed.
_WORSE = 3.0


def doubtful_row(costs: torch.Tensor) -> int | None:
    """The row whose removal costs least, where that is so little that it may be superfluous."""
    weakest = int(costs.argmin())
    return weakest if costs[weakest] < _DOUBTFUL else None


def recovered_loss(before: float, *, converged: float) -> float:
    """The loss that a search must come back to without the rows that it tried to do without."""
    return max(converged, _WORSE * before)
