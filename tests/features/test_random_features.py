"""Random features drawn block by block: any part of them, from memory or from the stream, alone or in a team."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec, activation
from exhume.linalg import blocks, streams
from exhume.parallel.team import Team
from exhume.storage.records import checked_record
from support.problems import small_sphere


def whole_V(features: RandomFeatures) -> torch.Tensor:
    return torch.cat([block.V for block in features.blocks()])


@pytest.fixture(params=streams.STREAMS)
def stream(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Either recipe, whatever the size."""
    monkeypatch.setattr(streams, "stream_for", lambda numbers: request.param)
    return str(request.param)


@pytest.mark.usefixtures("stream")
def test_a_prefix_of_the_features_is_the_same_features() -> None:
    features = RandomFeatures(RandomFeaturesSpec.describe(3000, 2000, "relu", seed=5), dtype=torch.float32)
    stop = features.whole_blocks(700)
    assert 700 <= stop < 2000
    head = torch.cat([block.V for block in features.blocks(stop=stop)])
    assert torch.equal(head, whole_V(features)[:stop])
    tail = torch.cat([block.V for block in features.blocks(start=stop)])
    assert torch.equal(tail, whole_V(features)[stop:])


@pytest.mark.usefixtures("stream")
def test_fewer_features_of_a_seed_are_the_first_of_more() -> None:
    few, many, other = (
        whole_V(RandomFeatures(RandomFeaturesSpec.describe(7, p, "relu", seed), dtype=torch.float64))
        for p, seed in ((300, 0), (1000, 0), (1000, 1))
    )
    assert torch.equal(few, many[:300])
    assert (many == other).double().mean() < 0.01  # 16-bit numbers coincide now and then


@pytest.mark.usefixtures("stream")
def test_blocks_within_the_budget_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * 20 * 8)
    spec = RandomFeaturesSpec.describe(20, 1500, "cosine", 3)
    itemsize = 2 if spec.stream == streams.QUANTILES else 8  # numbers of 16 bits are kept as such
    features = RandomFeatures(spec, dtype=torch.float64, memory=FeatureMemory(keep_bytes=2 * 256 * 20 * itemsize + 1))
    drawn: list[int] = []
    real = features._drawn_rows
    monkeypatch.setattr(features, "_drawn_rows", lambda rows: drawn.append(rows.start) or real(rows))
    first, second = ([(block.V.clone(), block.phase) for block in features.blocks()] for _ in range(2))
    assert drawn == [0, 256, 512, 768, 1024, 1280, 512, 768, 1024, 1280]
    for (V, phase), (again, same) in zip(first, second, strict=True):
        assert torch.equal(V, again)
        assert torch.equal(phase, same)  # type: ignore[arg-type]


def test_phases_are_uniform_on_the_circle() -> None:
    features = RandomFeatures(RandomFeaturesSpec.describe(2, 20_000, "cosine", 0), dtype=torch.float64)
    phase = torch.cat([block.phase for block in features.blocks()])[:, 0].sort().values  # type: ignore[misc]
    assert phase.min() >= 0
    assert phase.max() < 2 * math.pi
    expected = (torch.arange(len(phase), dtype=torch.float64) + 0.5) / len(phase)
    assert (phase / (2 * math.pi) - expected).abs().max() < 0.015  # Kolmogorov-Smirnov
    plain = RandomFeatures(RandomFeaturesSpec.describe(2, 10, "relu", 0), dtype=torch.float64)
    assert next(plain.blocks()).phase is None


@pytest.mark.parametrize("act", ["relu", "cosine"])
def test_blocks_leave_out_what_takes_no_part(act: str) -> None:
    spec = RandomFeaturesSpec.describe(300, 9000, act, 3)
    alive = torch.rand(9000, generator=torch.Generator().manual_seed(1)) < 0.3
    alive[3000:8000] = False  # a whole block and more
    X = small_sphere(d=300, n=4).rows
    whole = torch.cat([block.preactivation(X) for block in RandomFeatures(spec, dtype=torch.float64).blocks()])
    pruned = RandomFeatures(spec, dtype=torch.float64, memory=FeatureMemory(keep_bytes=1 << 24), alive=alive)
    for _ in range(2):  # drawn, then from memory
        blocks = list(pruned.blocks())
        assert torch.allclose(torch.cat([block.preactivation(X) for block in blocks]), whole[alive], rtol=1e-13, atol=1e-13)
        assert [block.rows.stop for block in blocks][-1] == pruned.p == int(alive.sum())
    count = pruned.whole_blocks(100)
    part = torch.cat([block.preactivation(X) for block in pruned.blocks(stop=count)])
    assert torch.allclose(part, whole[alive][:count], rtol=1e-13, atol=1e-13)


def test_blocks_are_shared_without_gap_or_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * 20 * 8)
    spec = RandomFeaturesSpec.describe(20, 1500, "cosine", 3)
    whole = RandomFeatures(spec, dtype=torch.float64)
    parts = [RandomFeatures(spec, dtype=torch.float64, memory=FeatureMemory(team=Team(rank, 2))) for rank in range(2)]
    count = whole.whole_blocks(900)
    assert sum(part.held(count) for part in parts) == count
    values = torch.arange(1500)
    owned = [part.own(values) for part in parts]
    assert sorted(torch.cat(owned).tolist()) == list(range(1500))
    V = torch.cat([block.V for block in whole.blocks()])
    for part, own in zip(parts, owned, strict=True):
        for block in part.blocks(stop=count):
            assert torch.equal(block.V, V[own[block.rows]])
        assert len(own[: part.held(count)]) == sum(len(block.V) for block in part.blocks(stop=count))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("keep", [0, 1 << 24])
def test_a_team_has_every_feature_once_also_from_memory_and_with_some_left_out(size: int, keep: int) -> None:
    spec = RandomFeaturesSpec.describe(20, 9000, "cosine", 3)
    alive = torch.arange(9000) % 7 > 1
    whole = RandomFeatures(spec, dtype=torch.float64, alive=alive)
    X = small_sphere(d=20, n=3).rows
    values = torch.cat(list(whole.values(X)))
    for rank in range(size):
        part = RandomFeatures(spec, dtype=torch.float64, memory=FeatureMemory(keep_bytes=keep, team=Team(rank, size)), alive=alive)
        for _ in range(2):
            mine = list(part.values(X))
            assert len(mine) >= 3  # nobody waits while one works
            torch.testing.assert_close(torch.cat(mine), part.own(values.T).T)


def test_a_release_whose_stream_differs_is_refused() -> None:
    spec = replace(RandomFeaturesSpec.describe(5, 10, "relu", seed=0), fingerprint=(1.0, 2.0, 3.0, 4.0))
    with pytest.raises(ExhumeError, match="differs from the release's"):
        RandomFeatures(spec, dtype=torch.float64)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stream": "dice"}, r"stream 'dice'\. Update exhume"),
        ({"count": 0}, "p >= 1, got d = 5, p = 0"),
        ({"input_dim": 0}, "d >= 1 and p >= 1, got d = 0"),
        ({"activation": "step"}, "unknown activation 'step'"),
    ],
)
def test_descriptions_that_cannot_be_drawn_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        RandomFeatures(replace(RandomFeaturesSpec.describe(5, 10, "relu", seed=0), **changes), dtype=torch.float64)  # type: ignore[arg-type]


def test_a_description_is_read_from_its_header(tmp_path: Path) -> None:
    spec = RandomFeaturesSpec.describe(2, 30, "tanh", 7)
    header = json.loads(json.dumps(spec.header()))
    assert header.pop("kind") == "random-features"
    assert checked_record(RandomFeaturesSpec, header, tmp_path) == spec
    assert (spec.d, spec.p, spec.first_weight, spec.one_hidden_layer) == (2, 30, None, True)
    assert spec.in_words({}) == "tanh of V x, V drawn from seed 7"
    assert spec.homogeneous == activation("tanh").homogeneous
    with pytest.raises(ExhumeError, match="Did you mean 'tanh'"):
        RandomFeaturesSpec.describe(2, 30, "tanhh", 7)


def test_scores_see_the_features_in_double_precision() -> None:
    spec = RandomFeaturesSpec.describe(20, 700, "gelu", 0)
    X = small_sphere(d=20, n=3).rows
    V = whole_V(RandomFeatures(spec, dtype=torch.float64))
    phi = torch.cat(list(spec.feature_blocks({})(X)))
    assert phi.dtype == torch.float64
    torch.testing.assert_close(phi, activation("gelu").value(V @ X.T))
