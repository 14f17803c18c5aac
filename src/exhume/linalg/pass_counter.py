"""Work in a unit that machines agree on: GEMM passes over all features."""

from __future__ import annotations


class PassCounter:
    """Passes counted by all problems of one run; parts of a pass add up."""

    def __init__(self, already: int = 0) -> None:
        self._passes, self._part = already, 0.0

    @property
    def total(self) -> int:
        """Whole passes so far."""
        return self._passes

    def add(self, passes: int, *, share: float = 1.0) -> None:
        """Count `passes` over a share of the features."""
        self._part += passes * share
        self._passes, self._part = self._passes + int(self._part), self._part % 1
