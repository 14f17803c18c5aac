"""V beyond the memory budget: kept in a file, read again as drawn, given up where reading is slower or the disk is full."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec
from exhume.features import disk_cache as spilling
from exhume.linalg import blocks


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RandomFeatures:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * 20 * 4)
    monkeypatch.setattr(spilling, "_PART", 1000)  # several parts, and one that is not full
    spec = RandomFeaturesSpec.describe(20, 1500, "cosine", 3)
    alive = torch.arange(1500) % 7 != 0
    memory = FeatureMemory(keep_bytes=2 * 256 * 20 * 4, cache=tmp_path)
    return RandomFeatures(spec, dtype=torch.float32, memory=memory, alive=alive)


def test_blocks_come_back_as_they_were_drawn(features: RandomFeatures, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = [(block.V.clone(), block.phase) for block in features.blocks()]
    assert len(first) == 6
    monkeypatch.setattr(features, "_drawn_rows", lambda rows: pytest.fail("drawn again"))
    for (V, phase), block in zip(first, features.blocks(), strict=True):
        assert torch.equal(V, block.V)
        assert phase is not None
        assert torch.equal(phase, block.phase)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())  # the file has no name, so nothing is left however the process ends


def test_a_slow_disk_is_given_up(features: RandomFeatures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilling, "_TRIED", 2)
    list(features.blocks())
    list(features.blocks())
    store = features._cache
    assert store is not None
    store._read.add(1, 1e6)
    assert not store.pays
    assert store.read(3, torch.float32) is None
    assert sum(len(block.V) for block in features.blocks()) == features.p


def test_a_full_disk_costs_time_only(features: RandomFeatures) -> None:
    assert features._cache is not None
    features._cache._room = 0
    twice = [torch.cat([block.V for block in features.blocks()]) for _ in range(2)]
    assert torch.equal(*twice)
