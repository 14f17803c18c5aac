"""Equations against unknowns: the law in numbers, and what noise alone would explain. Everything that counts imports this."""

from __future__ import annotations

# Equations per unknown that a certificate demands: at one or below, some rows always fit.
MARGIN = 1.1
# Equations per unknown that a search leaves itself: with fewer, further rows could fit anything.
_SEARCH_MARGIN = 1.05


def unknowns(rows: int, d: int, k: int, *, on_sphere: bool) -> int:
    """Free numbers of `rows` rows: d coordinates each (one less where norms are known) and one coefficient per output.

    >>> unknowns(20, 100, 1, on_sphere=True)
    2000
    """
    return rows * (d - int(on_sphere) + k)


def margin(equations: int, free: int) -> float:
    """Equations per unknown."""
    return equations / max(1, free)


def most_rows(p: int, d: int, k: int) -> int:
    """Most rows that p features with k outputs can pin down beside the nuisance columns [1, V], with a margin to spare."""
    equations = p * k - (d + 1) * k
    return max(1, int(equations / (_SEARCH_MARGIN * unknowns(1, d, k, on_sphere=True))))


def noise_gain(loss: float, *, unknowns: int, equations: int) -> float:
    """The loss that `unknowns` numbers fitted to noise take away of a residual: loss * unknowns / equations."""
    return loss * unknowns / equations
