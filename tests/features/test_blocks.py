"""Blocks of features, and what every map over blocks must keep."""

from __future__ import annotations

import math

import pytest
import torch

from exhume.features import ACTIVATIONS, Block, BlockwiseFeatures, MatrixFeatures, RandomFeatures, RandomFeaturesSpec, activation
from exhume.linalg import blocks

D, P = 20, 1500


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=["matrix", "matrix with a phase", "drawn", "drawn with a phase", "drawn, some left out"])
def features(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BlockwiseFeatures:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * D * 8)
    if request.param.startswith("matrix"):
        return MatrixFeatures(random(P, D), activation("tanh"), random(P, 1, seed=1) if "phase" in request.param else None)
    spec = RandomFeaturesSpec.describe(D, P, "cosine" if "phase" in request.param else "relu", 3)
    alive = torch.arange(P) % 5 > 0 if "left out" in request.param else None
    return RandomFeatures(spec, dtype=torch.float64, alive=alive)


def test_a_block_without_a_phase_weighs_both_parities_alike() -> None:
    V, X = random(7, D), random(3, D, seed=1)
    block = Block(slice(0, 7), V)
    torch.testing.assert_close(block.preactivation(X), V @ X.T)
    assert (block.even, block.odd) == (None, None)


def test_a_phase_splits_the_cosine_into_its_even_and_odd_parts() -> None:
    """sqrt(2) cos(z + b) = cos b sqrt(2) cos z + sin b (-sqrt(2) sin z)."""
    V, X, phase = random(7, D), random(3, D, seed=1), random(7, 1, seed=2)
    block, one = Block(slice(0, 7), V, phase), activation("cosine")
    Z = V @ X.T
    torch.testing.assert_close(block.preactivation(X), Z + phase)
    split = block.even * math.sqrt(2) * torch.cos(Z) - block.odd * math.sqrt(2) * torch.sin(Z)  # type: ignore[operator]
    torch.testing.assert_close(one.value(block.preactivation(X)), split)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_mean_slope_is_the_share_of_the_linear_part(name: str) -> None:
    """E[phi'(g)] over a fine grid of the normal distribution; with a phase, what multiplies sin b."""
    one = activation(name)
    middles = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    shift = math.pi / 2 if one.phase else 0.0  # where the odd weight is one
    slope = one.slope(torch.special.ndtri(middles) + shift).mean().item()
    assert MatrixFeatures(random(3, 2), one).mean_slope == pytest.approx(slope, abs=1e-4)


def test_values_are_the_activation_of_every_block(features: BlockwiseFeatures) -> None:
    X = random(4, D, seed=1)
    whole = list(features.blocks())
    assert len(whole) > 2
    V = torch.cat([block.V for block in whole])
    shift = torch.cat([block.phase for block in whole]) if whole[0].phase is not None else 0.0  # type: ignore[misc]
    torch.testing.assert_close(torch.cat(list(features.values(X))), features.activation.value(V @ X.T + shift))


def test_rows_of_blocks_count_without_gap(features: BlockwiseFeatures) -> None:
    places = [i for block in features.blocks() for i in range(block.rows.start, block.rows.stop)]
    assert places == list(range(features.p))
    assert all(block.V.shape == (block.rows.stop - block.rows.start, features.d) for block in features.blocks())
    assert all(block.V.dtype == features.dtype for block in features.blocks())


@pytest.mark.parametrize("count", [0, 1, 255, 256, 700, 1200, P])
def test_counts_end_at_the_end_of_a_block(features: BlockwiseFeatures, count: int) -> None:
    ends = [block.rows.stop for block in features.blocks()] if features.drawn else [features.p]
    count = min(count, features.p)
    assert features.whole_blocks(count) == min(end for end in ends if end >= count)
    assert features.blocks_within(count) == max([0, *(end for end in ends if end <= count)])
    stop = features.whole_blocks(count)
    assert sum(len(block.V) for block in features.blocks(stop=stop)) == features.held(stop) == stop
    assert features.held(0) == 0
    both = [*features.blocks(stop=stop), *features.blocks(start=stop)]
    assert torch.equal(torch.cat([block.V for block in both]), torch.cat([block.V for block in features.blocks()]))


def test_beyond_the_end_there_is_nothing(features: BlockwiseFeatures) -> None:
    assert features.whole_blocks(features.p + 7) == features.blocks_within(features.p + 7) == features.p
    assert not list(features.blocks(start=features.p))
    assert not list(features.blocks(stop=0))


def test_a_process_alone_holds_everything(features: BlockwiseFeatures) -> None:
    values = torch.arange(2 * features.p).reshape(2, -1)
    assert torch.equal(features.own(values), values)
