"""Random numbers that depend on the seed, the purpose and the block, and on nothing else."""

from __future__ import annotations

import pytest
import torch

from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec
from exhume.linalg import blocks, streams


def whole_V(features: RandomFeatures) -> torch.Tensor:
    return torch.cat([block.V for block in features.blocks()])


@pytest.fixture(params=streams.STREAMS)
def stream(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either recipe, whatever the size."""
    monkeypatch.setattr(streams, "stream_for", lambda numbers: request.param)
    return str(request.param)


def test_many_numbers_come_from_the_faster_stream() -> None:
    assert RandomFeaturesSpec.describe(3072, 300_000, "relu", seed=0).stream == streams.BOX_MULLER
    assert RandomFeaturesSpec.describe(3072, 400_000, "relu", seed=0).stream == streams.QUANTILES


@pytest.mark.usefixtures("stream")
def test_features_do_not_depend_on_grouping_or_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = RandomFeaturesSpec.describe(7, 1000, "relu", seed=3)
    drawn = whole_V(RandomFeatures(spec, dtype=torch.float64))
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * 7 * 8)  # the smallest blocks
    small = RandomFeatures(spec, dtype=torch.float64, memory=FeatureMemory(keep_bytes=1 << 20))
    assert len(list(small.blocks())) > 1
    assert torch.equal(whole_V(small), drawn)
    assert torch.equal(whole_V(small), drawn)  # second time from memory


@pytest.mark.usefixtures("stream")
def test_features_do_not_depend_on_threads() -> None:
    spec = RandomFeaturesSpec.describe(50, 2000, "cosine", seed=1)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    one = whole_V(RandomFeatures(spec, dtype=torch.float32))
    torch.set_num_threads(before)
    assert torch.equal(one, whole_V(RandomFeatures(spec, dtype=torch.float32)))


@pytest.mark.usefixtures("stream")
def test_float32_and_float64_are_the_same_numbers() -> None:
    spec = RandomFeaturesSpec.describe(10, 600, "relu", seed=0)
    single = whole_V(RandomFeatures(spec, dtype=torch.float32))
    double = whole_V(RandomFeatures(spec, dtype=torch.float64))
    assert torch.equal(single.double(), double)


@pytest.mark.usefixtures("stream")
def test_entries_are_normal_with_variance_one_over_d() -> None:
    V = whole_V(RandomFeatures(RandomFeaturesSpec.describe(100, 20000, "relu", seed=0), dtype=torch.float64)) * 10
    assert abs(V.mean().item()) < 0.005
    assert abs(V.var().item() - 1) < 0.01
    assert abs((V**4).mean().item() - 3) < 0.05
    assert abs((V[:-1] * V[1:]).mean().item()) < 0.005
    normal = torch.special.ndtr(V.flatten().sort().values)
    assert (normal - (torch.arange(V.numel()) + 0.5) / V.numel()).abs().max() < 0.0015  # Kolmogorov-Smirnov: 1e-4 for 2e6 values


def test_no_two_blocks_share_a_seed() -> None:
    keys = {streams._key(0, "features", block) for block in range(20000)}
    assert len(keys) == 20000
