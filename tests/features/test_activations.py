"""The activations: value, slope and parity of each."""

from __future__ import annotations

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.features import ACTIVATIONS, activation


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slope_is_the_derivative(name: str) -> None:
    one = activation(name)
    z = torch.linspace(-3, 3, 41, dtype=torch.float64) + 0.013  # away from kinks
    h = 1e-6
    numeric = (one.value(z + h) - one.value(z - h)) / (2 * h)
    torch.testing.assert_close(one.slope(z), numeric, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_parity_is_what_the_record_says(name: str) -> None:
    one = activation(name)
    if one.phase:
        return
    z = torch.linspace(0.1, 4, 20, dtype=torch.float64)
    odd, even = (one.value(z) - one.value(-z)) / 2, (one.value(z) + one.value(-z)) / 2
    if one.parity == "even":
        assert odd.abs().max() < 1e-12
    elif one.parity == "odd":
        assert even.abs().max() < 1e-12
    elif one.parity == "linear-odd":
        torch.testing.assert_close(odd, one.odd_slope * z)
    else:
        assert odd.abs().max() > 0.1
        assert even.abs().max() > 0.1


def test_unknown_activation_suggests_the_nearest() -> None:
    with pytest.raises(ExhumeError, match="Did you mean 'tanh'"):
        activation("tanhh")
