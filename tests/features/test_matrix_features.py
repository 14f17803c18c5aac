"""Features of a matrix that is at hand."""

from __future__ import annotations

import pytest
import torch

from exhume.features import MatrixFeatures, activation
from exhume.linalg import blocks

D, P = 6, 600


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_BYTES", 256 * D * 8)


def values(features: MatrixFeatures, X: torch.Tensor) -> torch.Tensor:
    return torch.cat(list(features.values(X)))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hidden_layer_is_taken_without_what_takes_no_part(bias: bool, dtype: torch.dtype) -> None:
    layer = {"first.weight": random(P, D), "head.weight": random(2, P, seed=9)} | (
        {"first.bias": random(P, seed=1)} if bias else {}
    )
    alive, X = torch.arange(P) % 4 > 0, random(3, D, seed=2)
    features = MatrixFeatures.of_layer(layer, "tanh", alive=alive, dtype=dtype)
    dense = torch.tanh(layer["first.weight"] @ X.T + (layer["first.bias"][:, None] if bias else 0.0))[alive]
    assert (features.p, features.d, features.dtype, features.drawn) == (450, D, dtype, False)
    torch.testing.assert_close(values(features, X.to(dtype)), dense.to(dtype))
    assert len(list(features.blocks())) == 2 if dtype is torch.float64 else 1


@pytest.mark.parametrize("phase", [False, True])
def test_projected_features_are_those_of_inputs_in_the_subspace(phase: bool) -> None:
    features = MatrixFeatures(random(P, D), activation("cosine"), random(P, 1, seed=1) if phase else None)
    Q, Z = torch.linalg.qr(random(D, 3, seed=2))[0], random(4, 3, seed=3)
    inside = features.projected(Q.float())
    assert (inside.p, inside.d, inside.dtype) == (P, 3, torch.float64)
    torch.testing.assert_close(values(inside, Z), values(features, Z @ Q.float().double().T))


def test_all_or_none_of_them_are_at_hand() -> None:
    features = MatrixFeatures(random(P, D), activation("relu"))
    assert [features.whole_blocks(count) for count in (0, 1, P)] == [P, P, P]
    assert [features.blocks_within(count) for count in (0, P - 1, P)] == [0, 0, P]
    assert [features.held(count) for count in (0, P)] == [0, P]
