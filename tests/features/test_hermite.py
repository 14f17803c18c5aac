"""Hermite coefficients and kernels against closed forms and against draws, and what they imply."""

from __future__ import annotations

import math

import pytest
import torch

from exhume.features import (
    ACTIVATIONS,
    Activation,
    activation,
    beyond_linear,
    hermite_coefficients,
    kernel_beyond_linear,
    linear_part,
    read_activation,
)


def own(value: object, parity: str = "mixed") -> Activation:
    """An activation that is not registered; its slope is not asked for."""
    return Activation("own", "", value, value, parity)  # type: ignore[arg-type]


def normal_pairs(count: int) -> torch.Tensor:
    """Evenly spread points of two independent standard normal numbers, (2, count)."""
    points = torch.quasirandom.SobolEngine(2, scramble=True, seed=0).draw(count, dtype=torch.float64)
    return torch.special.ndtri(points.clamp(1e-12, 1 - 1e-12)).T


def test_relu_coefficients_match_closed_forms() -> None:
    mu = hermite_coefficients(activation("relu"), 6)
    root = math.sqrt(2 * math.pi)
    expected = [1 / root, 0.5, 1 / (root * math.sqrt(2)), 0, -1 / (root * math.sqrt(24)), 0, 3 / (root * math.sqrt(720))]
    assert mu == pytest.approx(expected, abs=1e-12)


def test_a_polynomial_has_the_coefficients_it_is_made_of() -> None:
    """2 + 3 He_1 - He_3 + He_4 / 2, normalised by sqrt(l!)."""
    mu = hermite_coefficients(own(lambda z: 2 + 3 * z - (z**3 - 3 * z) + (z**4 - 6 * z**2 + 3) / 2), 6)
    assert mu == pytest.approx([2, 3, 0, -math.sqrt(6), math.sqrt(24) / 2, 0, 0], abs=1e-10)


def test_cosine_coefficients_are_root_mean_squares_over_the_phase() -> None:
    assert [abs(c) for c in hermite_coefficients(activation("cosine"), 8)] == pytest.approx(
        [math.exp(-0.5) / math.sqrt(math.factorial(l)) for l in range(9)]
    )


@pytest.mark.parametrize("name", ["relu", "tanh", "erf", "gelu", "abs", "relu+tanh", "leaky-relu", "cosine"])
def test_coefficients_carry_the_energy(name: str) -> None:
    """Parseval: the squares sum to E[phi^2]."""
    one = activation(name)
    g = torch.randn(200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if one.phase:
        g = g + 2 * math.pi * torch.rand(200_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    energy = (one.value(g) ** 2).mean().item()
    assert sum(c**2 for c in hermite_coefficients(one, 30)) == pytest.approx(energy, rel=0.03)


@pytest.mark.parametrize("name", ["relu", "gelu", "abs", "relu+tanh"])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_an_activation_loses_its_linear_part_and_no_more(name: str, scale: float) -> None:
    one = activation(name)
    left_over = beyond_linear(one, scale=scale)

    def scaled(value: object) -> list[float]:
        return hermite_coefficients(own(lambda z: value(scale * z)), 6)  # type: ignore[operator]

    left, before = scaled(left_over.value), scaled(one.value)
    assert max(abs(c) for c in left[:2]) < 1e-6
    assert left[2:] == pytest.approx(before[2:], abs=1e-6)
    z, step = torch.linspace(-3, 3, 50, dtype=torch.float64), 1e-6
    slope = (left_over.value(z + step) - left_over.value(z - step)) / (2 * step)
    torch.testing.assert_close(left_over.slope(z), slope, atol=1e-5, rtol=1e-5)
    constant, linear = linear_part(one, scale=scale)
    torch.testing.assert_close(left_over.value(z) + constant + linear * z, one.value(z))


@pytest.mark.parametrize("name", ["relu", "abs", "relu+tanh"])
def test_what_is_left_has_the_parity_that_it_says(name: str) -> None:
    left = beyond_linear(activation(name), scale=1.0)
    z = torch.linspace(0.1, 3, 20, dtype=torch.float64)
    assert (left.parity == "even") == torch.allclose(left.value(z), left.value(-z), atol=1e-9)


@pytest.mark.parametrize("name", ["relu", "gelu", "relu+tanh", "leaky-relu", "abs"])
@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_a_kernel_is_the_mean_over_features(name: str, scale: float) -> None:
    one = activation(name)
    kernel, left = kernel_beyond_linear(one, scale=scale), beyond_linear(one, scale=scale)
    a, b = normal_pairs(2**18)
    for c in (-0.7, 0.3, 0.8):
        pair = torch.tensor([[1.0, c], [c, 1.0]], dtype=torch.float64)
        t = c * a + math.sqrt(1 - c * c) * b
        value, slope = left.value(scale * a) * left.value(scale * t), left.slope(scale * a) * left.slope(scale * t)
        assert float(kernel.value(pair)[0, 1]) == pytest.approx(float(value.mean()), abs=5e-4)
        assert float(kernel.slope(pair)[0, 1]) == pytest.approx(scale**2 * float(slope.mean()), abs=5e-4)
        h = 1e-5
        above, below = (float(kernel.slope(torch.tensor([[1.0, c + e], [0.0, 1.0]], dtype=torch.float64))[0, 1]) for e in (h, -h))
        assert float(kernel.curvature(pair)[0, 1]) == pytest.approx((above - below) / (2 * h), rel=1e-4, abs=1e-9)
    assert kernel.at_one[0] == pytest.approx(float(left.value(scale * a).square().mean()), rel=0.001)
    assert kernel.at_one[1] == pytest.approx(scale**2 * float(left.slope(scale * a).square().mean()), rel=0.001)
    diagonals = [
        part(torch.eye(3, dtype=torch.float64)).diagonal().tolist() for part in (kernel.value, kernel.slope, kernel.curvature)
    ]
    assert diagonals == [[kernel.at_one[0]] * 3, [kernel.at_one[1]] * 3, [0.0] * 3]


def test_the_kernel_of_a_square_is_a_square() -> None:
    """E (a^2 - 1)(b^2 - 1) = 2 c^2."""
    square = Activation("square", "z^2", lambda z: z * z, lambda z: 2 * z, "even")
    kernel = kernel_beyond_linear(square, scale=1.0)
    c = torch.tensor([[1.0, -0.4], [0.9, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(kernel.value(c), 2 * c**2)
    torch.testing.assert_close(kernel.slope(c), 4 * c)
    torch.testing.assert_close(kernel.curvature(c), 4 * (1 - torch.eye(2, dtype=torch.float64)))


def test_what_activations_imply() -> None:
    relu, mixed, tanh = (read_activation(activation(name)) for name in ("relu", "relu+tanh", "tanh"))
    assert relu.sign_identifiable
    assert not relu.scale_identifiable
    assert relu.moment_start
    assert mixed.sign_identifiable
    assert not tanh.sign_identifiable
    assert not tanh.moment_start
    assert "mu_2 = 0.282" in relu.moment_reason  # 1 / sqrt(4 pi)
    assert "mu_2 = 0:" in tanh.moment_reason


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_signs_and_norms_can_be_read_where_features_tell_them_apart(name: str) -> None:
    """x and -x, or x and 2 x, span the same line of features where nothing tells them apart."""
    one = activation(name)
    reading = read_activation(one)
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(500, generator=draw, dtype=torch.float64)
    phase = 2 * math.pi * torch.rand(500, generator=draw, dtype=torch.float64) if one.phase else 0.0

    def same_line(a: torch.Tensor, b: torch.Tensor) -> bool:
        return bool((a @ b).abs() > (1 - 1e-12) * a.norm() * b.norm())

    here, opposite, twice = (one.value(factor * z + phase) for factor in (1, -1, 2))
    assert reading.sign_identifiable != same_line(here, opposite)
    assert reading.scale_identifiable != same_line(here, twice)


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (lambda z: z + (z**3 - 3 * z) + (z**4 - 6 * z**2 + 3), True),
        (lambda z: 1 + z + (z**3 - 3 * z) + (z**4 - 6 * z**2 + 3), False),  # mu_0
        (lambda z: (z**3 - 3 * z) + (z**4 - 6 * z**2 + 3), False),  # mu_1 = 0
        (lambda z: z + (z**2 - 1) + (z**3 - 3 * z) + (z**4 - 6 * z**2 + 3), False),  # mu_2
        (lambda z: z + (z**3 - 3 * z), False),  # odd orders only
        (lambda z: z + (z**4 - 6 * z**2 + 3), False),  # even orders only
    ],
)
def test_assumption_2_asks_for_no_constant_and_no_square_and_both_parities_beyond(value: object, holds: bool) -> None:
    assert read_activation(own(value)).assumption_2 == holds
