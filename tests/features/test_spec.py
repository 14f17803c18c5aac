"""What every description of a model keeps: its features times its last layer are the model."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch

from exhume.features import FeatureMemory, ModelSpec, RandomFeatures, RandomFeaturesSpec
from exhume.features.spec import Parameters
from exhume.parallel.team import ALONE
from support.drawn_networks import network_release, rows


@dataclass(frozen=True)
class Model:
    """A description, its parameters, and the outputs that the model gives."""

    spec: ModelSpec
    weights: torch.Tensor
    trained: Parameters
    outputs: torch.Tensor


X = rows(4)


def random_features(act: str) -> Model:
    spec = RandomFeaturesSpec.describe(64, 300, act, 0)
    weights = rows(2, 300, seed=1)
    blocks = list(RandomFeatures(spec, dtype=torch.float64).blocks())
    V, phase = torch.cat([b.V for b in blocks]), torch.cat([b.phase for b in blocks]) if act == "cosine" else 0.0  # type: ignore[misc]
    phi = 2**0.5 * torch.cos(V @ X.T + phase) if act == "cosine" else torch.relu(V @ X.T)
    return Model(spec, weights, {}, (weights @ phi).T)


def network(name: str) -> Model:
    release = network_release(name)
    with torch.no_grad():
        outputs = release.network.module(release.trained)(X.reshape(4, 1, 8, 8))
    return Model(release.model, release.weights, release.trained, outputs)


MAKERS = {"relu": random_features, "cosine": random_features, "two-layer": network, "resnet": network, "vit": network}


@pytest.fixture(params=MAKERS)
def model(request: pytest.FixtureRequest) -> Model:
    return MAKERS[request.param](request.param)


def features(model: Model, X: torch.Tensor) -> torch.Tensor:
    return torch.cat(list(model.spec.feature_blocks(model.trained)(X)))


def test_features_times_the_last_layer_are_the_model(model: Model) -> None:
    phi = features(model, X)
    assert phi.dtype == torch.float64
    assert phi.shape == (model.spec.p, len(X))
    assert model.spec.d == X.shape[1]
    torch.testing.assert_close((model.spec.last_layer(model.weights, model.trained) @ phi).T, model.outputs)


def test_homogeneous_is_what_the_features_show(model: Model) -> None:
    assert model.spec.homogeneous == torch.allclose(features(model, 3 * X), 3 * features(model, X))


def test_features_that_stayed_come_block_by_block(model: Model) -> None:
    stayed = model.spec.features_stayed(model.trained, model.trained)
    assert stayed == model.spec.one_hidden_layer
    if not stayed:
        return
    alive = torch.arange(model.spec.p) % 3 > 0
    fixed = model.spec.fixed_features(model.trained, alive=alive, dtype=torch.float64, memory=FeatureMemory())
    torch.testing.assert_close(torch.cat(list(fixed.values(X))), features(model, X)[alive])


def test_a_reordered_last_layer_belongs_to_other_features(model: Model) -> None:
    """The same order applied to the features gives the model back."""
    order = torch.randperm(model.spec.p, generator=torch.Generator().manual_seed(0))
    shuffled = model.spec.reordered(model.trained, order)
    last = model.spec.last_layer(model.weights[:, order], shuffled)
    torch.testing.assert_close((last @ features(model, X)[order]).T, model.outputs)
    assert not torch.allclose((last @ features(model, X)).T, model.outputs)


def test_a_header_is_plain_and_tells_the_kind(model: Model) -> None:
    header = json.loads(json.dumps(model.spec.header()))
    assert header["kind"] == model.spec.kind
    assert header["activation"] == model.spec.activation
    assert model.spec.in_words({})


def test_the_first_layer_is_named_where_it_was_trained(model: Model) -> None:
    name = model.spec.first_weight
    assert (name is None) == (not model.trained)
    assert name is None or name in model.trained


def test_a_description_must_say_everything() -> None:
    with pytest.raises(TypeError, match="abstract"):
        ModelSpec()  # type: ignore[abstract]


def test_by_default_nothing_is_kept_and_nothing_is_shared() -> None:
    memory = FeatureMemory()
    assert (memory.device, memory.keep_bytes, memory.cache, memory.team) == ("cpu", 0, None, ALONE)
