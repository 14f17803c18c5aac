"""How many features carry a search: a multiple of the unknowns, as far as memory holds the features and slopes of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

from exhume.errors import ExhumeError
from exhume.features import BlockwiseFeatures

# State tensors alive at once: features and slopes, of the accepted rows and of the trial.
_STATE_COPIES = 4


def share_of_features(memory: int) -> int:
    """Bytes that V may take: half of the budget. Features and slopes of the rows share the other half.

    >>> share_of_features(1000)
    500
    """
    return memory // 2


@dataclass(frozen=True)
class FeatureBudget:
    """A byte budget, and what it means for a search on some features."""

    features: BlockwiseFeatures
    memory: int  # bytes of one process
    processes: int  # that share the features
    least: int  # features that a search needs, whatever its rows
    per_unknown: float  # features per unknown coordinate that carry the search
    cheap_entries: int  # up to so many entries of V all features are used

    def features_for(self, rows: int) -> int:
        """Features, in whole blocks, that carry a search for `rows` rows: a multiple of the unknowns, all where that is cheap."""
        p, d = self.features.p, self.features.d
        wanted = max(self.least, math.ceil(self.per_unknown * d * rows))
        count = p if p * d <= self.cheap_entries else min(p, wanted)
        half, whole = (self.features.whole_blocks(some) for some in (count // 2, count))
        return min(whole, max(half, self.features.blocks_within(self.affordable(rows))))

    def affordable(self, rows: int) -> int:
        """Most features on which the states of `rows` rows fit the budget besides V's share."""
        return self.processes * (self.memory - share_of_features(self.memory)) // self._bytes_per_feature(rows)

    def check(self, count: int, rows: int) -> None:
        """Raise unless the states of `rows` rows on `count` features fit the budget; V takes what is left of it."""
        if count > self.affordable(rows):
            need = count * self._bytes_per_feature(rows) / self.processes
            raise ExhumeError(
                f"a memory budget of {self.memory / 1e6:.0f} MB is too small: {rows} rows on {count} features need "
                f"{need / 1e6:.0f} MB besides V's share of {share_of_features(self.memory) / 1e6:.0f} MB. Raise --memory."
            )

    def _bytes_per_feature(self, rows: int) -> int:
        return _STATE_COPIES * (rows + 2) * self.features.dtype.itemsize
