"""Dense layers of any widths."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from exhume.architectures import describe_network, initial_parameters
from exhume.errors import ExhumeError


def test_it_is_the_sequence_that_torch_users_write() -> None:
    spec = describe_network("mlp", (1, 2, 3), outputs=4, last_layer=1, widths=(7, 5), bias=True)
    values = initial_parameters(spec, seed=0, dtype=torch.float64)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 4)).double()
    plain.load_state_dict(dict(zip(plain.state_dict(), values.values(), strict=True)))
    x = torch.randn(3, 1, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert torch.equal(spec.module(values)(x), plain(x))
    assert (spec.p, spec.width, spec.relu_behind_first, spec.homogeneous) == (5, 7, True, False)


def test_weights_and_biases_start_as_torch_starts_them() -> None:
    spec = describe_network("mlp", (100,), outputs=2, last_layer=1, widths=(400,), bias=True)
    values = initial_parameters(spec, seed=0, dtype=torch.float64)
    for name in ("first.weight", "first.bias"):
        assert float(values[name].abs().max()) <= 0.1
        assert float(values[name].std()) == pytest.approx(0.1 / math.sqrt(3), rel=0.1)
    assert not torch.equal(values["first.weight"], initial_parameters(spec, seed=1, dtype=torch.float64)["first.weight"])


def test_without_widths_the_last_layers_size_gives_one() -> None:
    spec = describe_network("mlp", (10,), outputs=2, last_layer=60)
    assert (spec.width, spec.p, spec.biased, spec.homogeneous) == (30, 30, False, True)
    assert describe_network("mlp", (10,), outputs=2, last_layer=60, activation="tanh").relu_behind_first is False


def test_other_parameters_are_refused() -> None:
    spec = describe_network("mlp", (10,), outputs=2, last_layer=1, widths=(5, 4))
    with pytest.raises(ExhumeError, match="do not belong"):
        spec.module({"first.weight": torch.zeros(5, 10)})
