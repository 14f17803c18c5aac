from __future__ import annotations

import math

import pytest
import torch

from exhume.errors import ExhumeError
from exhume.features import ACTIVATIONS, activation, hermite_coefficients, read_activation


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slope_is_the_derivative(name: str) -> None:
    one = activation(name)
    z = torch.linspace(-3, 3, 41, dtype=torch.float64) + 0.013  # away from kinks
    h = 1e-6
    numeric = (one.value(z + h) - one.value(z - h)) / (2 * h)
    torch.testing.assert_close(one.slope(z), numeric, atol=1e-8, rtol=1e-6)


def test_relu_coefficients_match_closed_forms() -> None:
    mu = hermite_coefficients(activation("relu"), 6)
    root = math.sqrt(2 * math.pi)
    expected = [1 / root, 0.5, 1 / (root * math.sqrt(2)), 0, -1 / (root * math.sqrt(24)), 0, 3 / (root * math.sqrt(720))]
    assert mu == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["relu", "tanh", "erf", "gelu", "abs", "relu+tanh", "leaky-relu", "cosine"])
def test_coefficients_carry_the_energy(name: str) -> None:
    """Parseval: the squares sum to E[phi^2]."""
    one = activation(name)
    g = torch.randn(200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if one.phase:
        g = g + 2 * math.pi * torch.rand(200_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    energy = (one.value(g) ** 2).mean().item()
    assert sum(c**2 for c in hermite_coefficients(one, 30)) == pytest.approx(energy, rel=0.03)


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


def test_what_activations_imply() -> None:
    relu, mixed, tanh = (read_activation(activation(name)) for name in ("relu", "relu+tanh", "tanh"))
    assert relu.sign_identifiable
    assert not relu.scale_identifiable
    assert relu.moment_start
    assert mixed.sign_identifiable
    assert not tanh.sign_identifiable
    assert not tanh.moment_start


def test_unknown_activation_suggests_the_nearest() -> None:
    with pytest.raises(ExhumeError, match="Did you mean 'tanh'"):
        activation("tanhh")
