"""How many features carry a search, by unknowns and by memory."""

from __future__ import annotations

import math

import pytest
import torch

from exhume.attacks.span.feature_budget import FeatureBudget
from exhume.errors import ExhumeError
from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec
from exhume.linalg import blocks

D, N, P = 20, 4, 2000


def budget(*, memory: int = 1 << 30, cheap_entries: int = 8_000_000) -> FeatureBudget:
    """On 2000 features of 20 inputs, in blocks of 256."""
    features = RandomFeatures(RandomFeaturesSpec.describe(D, P, "relu", 0), dtype=torch.float64, memory=FeatureMemory())
    return FeatureBudget(features, memory, 1, 0, 3.0, cheap_entries)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * D * 8)


def bytes_for(rows: int, features: int) -> int:
    """A budget whose half holds the states of so many rows on so many features: four copies of (rows + 2) numbers each."""
    return 2 * 4 * (rows + 2) * 8 * features


@pytest.mark.parametrize("rows", [1, N, 50])
def test_where_that_is_cheap_all_features_carry_the_search(rows: int) -> None:
    assert budget().features_for(rows) == P


@pytest.mark.parametrize(("rows", "features"), [(1, 256), (4, 256), (5, 512), (20, 1280), (33, 2000), (100, 2000)])
def test_else_three_for_each_unknown_coordinate_in_whole_blocks(rows: int, features: int) -> None:
    assert budget(cheap_entries=0).features_for(rows) == features
    assert features == min(P, 256 * math.ceil(3 * D * rows / 256))


@pytest.mark.parametrize(("room", "features"), [(2000, 2000), (1999, 1792), (1500, 1280), (1100, 1024), (300, 1024)])
def test_a_small_budget_takes_features_away_down_to_half(room: int, features: int) -> None:
    small = budget(memory=bytes_for(N, room))
    assert small.affordable(N) == room
    assert small.features_for(N) == features


def test_what_does_not_fit_is_refused_with_its_size() -> None:
    with pytest.raises(
        ExhumeError, match=r"^a memory budget of 0 MB is too small: 4 rows on 1024 features need 0 MB besides V's share"
    ):
        budget(memory=bytes_for(N, 300)).check(1024, N)
