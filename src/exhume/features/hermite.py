"""Hermite coefficients of an activation, and what they imply: the paper's Assumption 2 and Remark 1 as numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from exhume.features.activations import Activation

# Quadrature on each half line, where every activation here is smooth; exp(-14^2/2) is below 1e-42.
_HALF_LINE = 14.0
_NODES = 400
# Terms of a kernel's series: at a cosine of 0.9 what is left out is below a percent.
_KERNEL_ORDER = 64
# Coefficients below this count as zero: quadrature is exact to about 1e-14.
ZERO = 1e-10


def hermite_coefficients(one: Activation, order: int = 8) -> list[float]:
    """mu_l = E[phi(g) He_l(g)] / sqrt(l!) for l = 0..order, g standard normal; root mean square over the phase, if any."""
    if one.phase:  # mu_l(b) = mu_l(0) cos b for even l and mu_l(pi/2) sin b for odd l
        at = [_coefficients(one, order, shift) for shift in (0.0, math.pi / 2)]
        return [at[l % 2][l] / math.sqrt(2) for l in range(order + 1)]
    return _coefficients(one, order, 0.0)


def linear_part(one: Activation, *, scale: float) -> tuple[float, float]:
    """(a, b) with a + b t = c0 + c1 t/s for t ~ N(0, s^2): an activation's first two Hermite terms."""
    c0, c1 = _coefficients(_scaled(one, scale), 1, 0.0)
    return c0, c1 / scale


def beyond_linear(one: Activation, *, scale: float) -> Activation:
    """act_{>1}(t) = act(t) - (a + b t): what its linear part leaves of an activation."""
    constant, linear = linear_part(one, scale=scale)
    return Activation(
        f"{one.name} beyond its linear part",
        f"{one.formula} - ({constant:.3g} + {linear:.3g} z)",
        lambda z: one.value(z).sub_(constant).sub_(z, alpha=linear),
        lambda z: one.slope(z).sub_(linear),
        "even" if one.parity in ("even", "linear-odd") else one.parity,
    )


@dataclass(frozen=True)
class Kernel:
    """f(c) = E phi(s a) phi(s b) = sum_l mu_l^2 c^l for standard normal a and b of correlation c."""

    squares: tuple[float, ...]  # mu_l^2
    at_one: tuple[float, float]  # f(1) and f'(1), near which the series converges slowly

    def value(self, c: torch.Tensor) -> torch.Tensor:
        """f of a matrix of correlations, its diagonal being of ones."""
        return _horner(self.squares, c).fill_diagonal_(self.at_one[0])

    def slope(self, c: torch.Tensor) -> torch.Tensor:
        """f' of a matrix of correlations, its diagonal being of ones."""
        return _horner([l * square for l, square in enumerate(self.squares)][1:], c).fill_diagonal_(self.at_one[1])

    def curvature(self, c: torch.Tensor) -> torch.Tensor:
        """f'' off the diagonal; 0 on it, where a kink makes it infinite."""
        return _horner([l * (l - 1) * square for l, square in enumerate(self.squares)][2:], c).fill_diagonal_(0.0)


def kernel_beyond_linear(one: Activation, *, scale: float) -> Kernel:
    """The kernel of act_{>1}(t), t ~ N(0, scale^2)."""
    squares = [mu**2 for mu in _coefficients(_scaled(one, scale), _KERNEL_ORDER, 0.0)]
    left, (z, w) = beyond_linear(one, scale=scale), _normal_quadrature()
    t = torch.from_numpy(scale * z)
    value, slope = left.value(t).numpy(), scale * left.slope(t).numpy()
    return Kernel((0.0, 0.0, *squares[2:]), (float(w @ value**2), float(w @ slope**2)))


def _scaled(one: Activation, scale: float) -> Activation:
    return replace(one, value=lambda z: one.value(scale * z))


def _horner(coefficients: Sequence[float], c: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(c)
    for coefficient in reversed(coefficients):
        total = total * c + coefficient
    return total


@functools.cache  # an eigenvalue problem of its own
def _normal_quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of E g(z) for a standard normal z, exact for what is smooth on each half line."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = (nodes + 1) * _HALF_LINE / 2
    z = np.concatenate([-half[::-1], half])
    return z, np.concatenate([weights[::-1], weights]) * _HALF_LINE / 2 * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _coefficients(one: Activation, order: int, shift: float) -> list[float]:
    z, w = _normal_quadrature()
    phi = one.value(torch.from_numpy(z + shift)).numpy()
    he = [np.ones_like(z), z]
    while len(he) <= order:
        he.append(z * he[-1] - (len(he) - 1) * he[-2])
    return [float((w * phi * he[l]).sum() / math.sqrt(math.factorial(l))) for l in range(order + 1)]


@dataclass(frozen=True)
class Reading:
    """What an activation's Hermite coefficients mean for reconstruction."""

    coefficients: tuple[float, ...]
    sign_identifiable: bool
    sign_reason: str
    scale_identifiable: bool
    scale_reason: str
    moment_start: bool
    moment_reason: str
    assumption_2: bool


def read_activation(one: Activation, order: int = 8) -> Reading:
    """Sign, scale and start of an attack on phi, from its coefficients."""
    mu = hermite_coefficients(one, order)
    high = [abs(c) > ZERO for c in mu[3:]]
    mixed_high = any(high[0::2]) and any(high[1::2])  # orders 3, 5, ... and 4, 6, ...
    signs = {
        "even": (False, "phi(-z) = phi(z): x and -x have the same features"),
        "odd": (False, "phi(-z) = -phi(z): x and -x span the same line"),
        "linear-odd": (True, "the odd part is exactly linear: the weights' linear component carries the signs"),
        "mixed": (True, "coefficients of order >= 3 have both parities: -x does not span x"),
    }
    sign, sign_reason = signs[one.parity]
    return Reading(
        coefficients=tuple(mu),
        sign_identifiable=sign,
        sign_reason=sign_reason,
        scale_identifiable=not one.homogeneous,
        scale_reason=(
            "phi(s z) = s phi(z): the span holds directions only; norms need labels of known size or a known norm"
            if one.homogeneous
            else "phi is not homogeneous: the features depend on the norm"
        ),
        moment_start=abs(mu[2]) > ZERO,
        moment_reason=(
            f"mu_2 = {mu[2]:.3f}: samples stand out as eigenvectors of the second moment of the weights"
            if abs(mu[2]) > ZERO
            else "mu_2 = 0: the second moment of the weights is blind; the search starts at random"
        ),
        assumption_2=all(abs(mu[l]) < ZERO for l in (0, 2)) and abs(mu[1]) > ZERO and mixed_high,
    )
