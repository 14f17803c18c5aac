"""What the registry says of each network, found by trying."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exhume.architectures import NETWORKS, architecture, describe_network, initial_parameters
from exhume.errors import ExhumeError
from exhume.features import ModuleFeatures
from support.drawn_networks import PICTURE, rows, weights


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_are_called_first_and_head_and_the_head_has_no_bias(name: str) -> None:
    spec = describe_network(name, PICTURE, outputs=3, last_layer=200)
    graph = spec.graph()
    assert isinstance(graph.get_submodule("first"), nn.Linear | nn.Conv2d)
    head = graph.get_submodule("head")
    assert isinstance(head, nn.Linear)
    assert head.bias is None
    assert ModuleFeatures(spec.module(weights(spec)), PICTURE, dtype=torch.float64).last == "head"


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shape", [PICTURE, (3, 16, 16), (3, 32, 32)])
def test_a_unit_of_width_gives_as_many_features_as_it_says(name: str, shape: tuple[int, ...]) -> None:
    kind = architecture(name)
    spec = describe_network(name, shape, outputs=1, last_layer=1)
    assert spec.width == kind.width_step
    assert spec.graph().get_submodule("head").in_features == kind.features_per_width(shape) * spec.width == spec.p


@pytest.mark.parametrize("name", NETWORKS)
def test_homogeneous_is_what_the_features_show(name: str) -> None:
    spec = describe_network(name, PICTURE, outputs=1, last_layer=200)
    features = spec.features_at(weights(spec), dtype=torch.float64)
    grows = torch.allclose(features.value(3 * rows(4)), 3 * features.value(rows(4)))
    assert architecture(name).homogeneous == grows


@pytest.mark.parametrize("name", NETWORKS)
def test_one_hidden_layer_is_an_activation_of_a_matrix(name: str) -> None:
    spec = describe_network(name, PICTURE, outputs=1, last_layer=200)
    parameters = weights(spec)
    first = parameters["first.weight"]
    same = first.shape[1] == 64 and torch.allclose(
        spec.features_at(parameters, dtype=torch.float64).value(rows(3)), torch.relu(rows(3) @ first.T)
    )
    assert architecture(name).one_hidden_layer == same


@pytest.mark.parametrize("name", NETWORKS)
def test_the_initial_spread_is_that_of_appendix_d(name: str) -> None:
    """First layer 1/sqrt(d) (of a transformer, which is not in the paper's appendix, 1/sqrt(fan_in)), others 1/sqrt(fan_in)."""
    spec = describe_network(name, PICTURE, outputs=2, last_layer=4000)
    for key, value in initial_parameters(spec, seed=0, dtype=torch.float64).items():
        if value.ndim < 2 or value.numel() < 200:
            continue
        fan_in = value[0].numel()
        expected = 0.02 if key == "position" else 1 / (64 if key == "first.weight" and name != "vit" else fan_in) ** 0.5
        expected /= 3**0.5 if name == "mlp" else 1  # torch's own start is uniform within 1/sqrt(fan_in)
        assert value.std().item() == pytest.approx(expected, rel=0.15), key


def test_an_unknown_network_suggests_the_nearest() -> None:
    with pytest.raises(ExhumeError, match=r"unknown network 'resnett'\. Did you mean 'resnet'"):
        architecture("resnett")
