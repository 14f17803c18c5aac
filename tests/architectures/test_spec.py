"""The description of a network: its size, its weights, its features, and what an attacker reads from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from exhume.architectures import NETWORKS, ModuleSpec, NetworkSpec, describe_network, initial_parameters
from exhume.errors import ExhumeError
from exhume.features import FeatureMemory
from exhume.storage.records import checked_record
from support.drawn_networks import PICTURE, rows, weights


@pytest.mark.parametrize(("name", "step"), [("two-layer", 1), ("resnet", 49), ("vit", 64)])
@pytest.mark.parametrize("outputs", [1, 10])
@pytest.mark.parametrize("last_layer", [1, 500, 12_345])
def test_the_last_layer_has_about_as_many_parameters_as_asked_for(name: str, step: int, outputs: int, last_layer: int) -> None:
    spec = describe_network(name, PICTURE, outputs=outputs, last_layer=last_layer)
    head = spec.graph().get_submodule("head").weight
    assert head.shape == (outputs, spec.p)
    assert abs(head.numel() - last_layer) <= max(step * outputs / 2, step * outputs - last_layer)
    assert (spec.d, spec.outputs, spec.count) == (64, outputs, spec.p)


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_before_training_are_the_seeds_and_the_dtype_rounds_them(name: str) -> None:
    spec = describe_network(name, PICTURE, outputs=2, last_layer=300)
    one, again, other = (initial_parameters(spec, seed=seed, dtype=torch.float64) for seed in (0, 0, 1))
    single = initial_parameters(spec, seed=0, dtype=torch.float32)
    assert list(one) == [key for key, _ in spec.graph().named_parameters()]
    for key, value in one.items():
        assert torch.equal(value, again[key])
        assert torch.equal(value.float(), single[key])
        if value.ndim > 1:
            assert not torch.equal(value, other[key])
        else:  # norms start at one, biases at zero
            assert bool((value == float(key.endswith("weight"))).all())


def test_layers_are_drawn_from_streams_of_their_own() -> None:
    square = NetworkSpec("two-layer", (30,), 30, 30, 30)
    theta = initial_parameters(square, seed=0, dtype=torch.float64)
    correlation = torch.corrcoef(torch.stack([theta["first.weight"].flatten(), theta["head.weight"].flatten()]))[0, 1]
    assert abs(correlation.item()) < 0.15


def test_parameters_that_do_not_belong_are_refused() -> None:
    spec = describe_network("two-layer", (5,), outputs=2, last_layer=20)
    theta = weights(spec)
    missing = {key: value for key, value in theta.items() if key != "head.weight"}
    for wrong, message in (
        (missing, "'head.weight' is missing or too much"),
        (theta | {"more": torch.ones(1)}, "'more' is missing or too much"),
        (theta | {"head.weight": torch.ones(2, 3)}, r"do not belong to this two-layer: size mismatch for head\.weight"),
    ):
        with pytest.raises(ExhumeError, match=message):
            spec.module(wrong)


def test_a_module_is_ready_to_evaluate_with_the_parameters_it_was_given() -> None:
    spec = describe_network("vit", PICTURE, outputs=2, last_layer=128)
    theta = weights(spec)
    module = spec.module(theta)
    assert not module.training
    assert all(torch.equal(value, theta[key]) for key, value in module.state_dict().items())
    assert all(value.is_meta for value in spec.graph().parameters())


@pytest.mark.parametrize("name", NETWORKS)
def test_features_times_the_last_layer_are_the_outputs(name: str) -> None:
    spec = describe_network(name, PICTURE, outputs=3, last_layer=300)
    theta, X = weights(spec), rows(4)
    with torch.no_grad():
        outputs = spec.module(theta)(X.reshape(4, *PICTURE))
    head = spec.last_layer(torch.zeros(3, spec.p), theta)
    torch.testing.assert_close(spec.features_at(theta, dtype=torch.float64).value(X) @ head.T, outputs)
    (phi,) = spec.feature_blocks(theta)(X)
    assert phi.dtype == torch.float64
    torch.testing.assert_close((head @ phi).T, outputs)


def test_features_stayed_where_the_first_layer_did_not_move() -> None:
    spec = describe_network("two-layer", (5,), outputs=1, last_layer=20)
    theta = weights(spec)
    moved = theta | {"first.weight": theta["first.weight"] + 1e-12}
    other_head = theta | {"head.weight": theta["head.weight"] + 1}
    assert spec.features_stayed(other_head, theta)
    assert not spec.features_stayed(moved, theta)
    assert not spec.features_stayed(theta, {"head.weight": theta["head.weight"]})  # the first layer is not known
    assert not spec.features_stayed(theta, {})
    deep = describe_network("resnet", PICTURE, outputs=1, last_layer=49)
    assert not deep.features_stayed(weights(deep), weights(deep))
    assert not replace(spec, first=None).features_stayed(theta, theta)


@pytest.mark.parametrize("biased", [False, True])
def test_fixed_features_are_the_hidden_layer_without_what_takes_no_part(biased: bool) -> None:
    spec = replace(describe_network("two-layer", (5,), outputs=1, last_layer=20), biased=biased, activation="tanh")
    theta, X, alive = weights(spec), rows(3, 5), torch.arange(20) % 3 > 0
    features = spec.fixed_features(theta, alive=alive, dtype=torch.float64, memory=FeatureMemory())
    (phi,) = features.values(X)
    torch.testing.assert_close(phi.T, spec.features_at(theta, dtype=torch.float64).value(X)[:, alive])


def test_reordered_columns_are_those_of_the_last_layer_only() -> None:
    spec = describe_network("two-layer", (5,), outputs=2, last_layer=20)
    theta, order = weights(spec), torch.randperm(10, generator=torch.Generator().manual_seed(0))
    shuffled = spec.reordered(theta, order)
    assert torch.equal(shuffled["head.weight"], theta["head.weight"][:, order])
    assert torch.equal(shuffled["first.weight"], theta["first.weight"])


@pytest.mark.parametrize(("changes", "grows"), [({}, True), ({"biased": True}, False), ({"activation": "tanh"}, False)])
def test_a_bias_or_a_curved_activation_ends_homogeneity(changes: dict[str, object], grows: bool) -> None:
    spec = replace(describe_network("two-layer", (5,), outputs=1, last_layer=20), **changes)  # type: ignore[arg-type]
    features = spec.features_at(weights(spec), dtype=torch.float64)
    assert spec.homogeneous == torch.allclose(features.value(2 * rows(3, 5)), 2 * features.value(rows(3, 5))) == grows


def test_a_header_brings_the_description_back(tmp_path: Path) -> None:
    spec = replace(describe_network("vit", PICTURE, outputs=2, last_layer=128), first=None)
    header = json.loads(json.dumps(spec.header()))
    assert header.pop("kind") == "network"
    assert checked_record(NetworkSpec, header, tmp_path) == spec
    assert (spec.first_weight, spec.head_weight) == (None, "head.weight")
    assert describe_network("vit", PICTURE, outputs=2, last_layer=128).first_weight == "first.weight"


def test_words_say_which_layers_are_known() -> None:
    spec = describe_network("two-layer", (5,), outputs=1, last_layer=20)
    theta = weights(spec)
    for known, words in ((theta, "all layers"), ({"head.weight": theta["head.weight"]}, "the last layer"), ({}, "no layer")):
        assert spec.in_words(known) == f"two-layer of width 20: all trained weights, and those of {words} before training"


def test_a_module_of_ones_own_is_copied_and_stays_out_of_the_header() -> None:
    own = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    spec = ModuleSpec("mine", (4,), 1, 3, 3, head="2", first="0", own=own, grows_with_inputs=False)
    theta = {key: torch.randn_like(value) for key, value in own.state_dict().items()}
    before = {key: value.clone() for key, value in own.state_dict().items()}
    X = rows(2, 4)
    torch.testing.assert_close(
        spec.features_at(theta, dtype=torch.float64).value(X), torch.tanh(X @ theta["0.weight"].T + theta["0.bias"])
    )
    assert all(torch.equal(value, before[key]) for key, value in own.state_dict().items())
    assert (spec.homogeneous, spec.one_hidden_layer, spec.head_weight, spec.first_weight) == (False, False, "2.weight", "0.weight")
    assert replace(spec, grows_with_inputs=True).homogeneous
    header = json.loads(json.dumps(spec.header()))
    assert header["kind"] == "module"
    assert "own" not in header
