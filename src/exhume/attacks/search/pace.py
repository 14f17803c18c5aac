"""When a search counts as stalled, and how it then grows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """How long a search waits for a gain, and how many rows it adds where there is none."""

    patience: int
    """Steps over which a gain is measured."""

    gain: float
    """Stalled when the loss stays above this share of what it was `patience` steps ago."""

    growth: float = 0.0
    """Rows added when stalled, as a share of those there."""

    least: int = 0
    """Rows added at least."""

    def stalled(self, losses: tuple[float, ...]) -> bool:
        """Whether the last `patience` steps gained too little."""
        return len(losses) > self.patience and losses[-1] > losses[-1 - self.patience] * self.gain

    def added(self, rows: int) -> int:
        """Rows to add to so many."""
        return max(self.least, int(self.growth * rows))
