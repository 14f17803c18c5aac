"""Layers found by running a module: the one hidden layer, and the one that sees the inputs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from exhume.auditing.loaders.layer_probe import first_layer, hidden_layer

ROWS = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
PICTURES = torch.randn(4, 2, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class _Scaled(nn.Module):
    """The inputs doubled, then two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 5), nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(2 * x)))


def net(activation: nn.Module, *, bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5, bias=bias), activation, nn.Linear(5, 2)).double()


@pytest.mark.parametrize(
    ("activation", "name"),
    [
        (nn.ReLU(), "relu"),
        (nn.LeakyReLU(), "leaky-relu"),
        (nn.GELU(), "gelu"),
        (nn.Tanh(), "tanh"),
        (nn.Sigmoid(), None),  # not one of ours
        (nn.GELU(approximate="tanh"), None),
        (nn.LeakyReLU(0.2), None),
        (nn.Identity(), None),
    ],
)
def test_the_activation_is_recognised_by_its_values(activation: nn.Module, name: str | None) -> None:
    found = hidden_layer(net(activation), "2", ROWS)
    assert (found.activation.name if found else None) == name


@pytest.mark.parametrize("bias", [True, False])
def test_the_hidden_layer_has_a_name_and_may_have_a_bias(bias: bool) -> None:
    found = hidden_layer(net(nn.ReLU(), bias=bias), "2", ROWS)
    assert found is not None
    assert (found.name, found.biased) == ("0", bias)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(6, 2)),
        nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2)),
        nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)),
        nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 2)),
        _Scaled(),
    ],
    ids=["one layer", "three layers", "inputs are normalised", "features are normalised", "inputs are scaled"],
)
def test_anything_more_than_two_layers_is_not_taken_for_them(module: nn.Module) -> None:
    names = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    assert hidden_layer(module.double(), names[-1], ROWS) is None


def test_pictures_are_flattened_on_their_way() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(72, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    found = hidden_layer(module, "3", PICTURES)
    assert found is not None
    assert found.name == "1"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 2)), "1"),
        (nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)), "0"),
        (nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, 2)), None),
        (nn.Sequential(nn.Conv2d(2, 3, 3, dilation=2), nn.Flatten(), nn.Linear(12, 2)), None),
        (nn.Sequential(nn.Conv2d(2, 3, 3, padding="same"), nn.Flatten(), nn.Linear(108, 2)), None),
        (nn.Sequential(nn.Linear(6, 5), nn.Flatten(), nn.Linear(60, 2)), None),  # it sees lines of a picture, not pictures
        (nn.Sequential(nn.BatchNorm2d(2, momentum=None), nn.Flatten(), nn.Linear(72, 5), nn.Linear(5, 2)), None),
        (nn.Sequential(nn.Flatten(), nn.Linear(72, 2)), None),  # only the last layer sees them
    ],
)
def test_the_first_layer_is_the_one_that_sees_whole_inputs(module: nn.Module, expected: str | None) -> None:
    last = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)][-1]
    module.train(mode=False)
    if isinstance(module[0], nn.BatchNorm2d):
        module[0].running_mean += 1.0  # so that it changes its inputs
    assert first_layer(module, last, PICTURES) == expected


def test_looking_leaves_the_module_as_it_was() -> None:
    module = net(nn.ReLU()).float()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    first_layer(module, "2", ROWS)
    hidden_layer(module, "2", ROWS.float())
    assert all(value.dtype == torch.float32 and torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(part._forward_hooks for part in module.modules())
