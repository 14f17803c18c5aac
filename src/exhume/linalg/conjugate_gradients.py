"""Preconditioned conjugate gradients over tuples of tensors (one tensor per group of unknowns)."""

from __future__ import annotations

from collections.abc import Callable

import torch

Group = tuple[torch.Tensor, ...]


def dot(a: Group, b: Group) -> float:
    """Inner product, summed in float64."""
    return sum(float((x.double() * y.double()).sum()) for x, y in zip(a, b, strict=True))


def add_scaled(a: Group, factor: float, b: Group) -> Group:
    """a + factor * b."""
    return tuple(x + factor * y for x, y in zip(a, b, strict=True))


def conjugate_gradients(
    product: Callable[[Group], Group],
    right: Group,
    precondition: Callable[[Group], Group],
    *,
    steps: int,
    tolerance: float,
) -> Group:
    """Solve H x = right from x = 0 until the preconditioned residual falls by `tolerance`, in at most `steps` products."""
    x: Group = tuple(torch.zeros_like(part) for part in right)
    residual = right
    preconditioned = precondition(residual)
    direction = preconditioned
    energy = first = dot(residual, preconditioned)
    done = 0
    while done < steps and energy > 0:
        image = product(direction)
        done += 1
        curvature = dot(direction, image)
        if curvature <= 0:  # rounding ate the curvature: what we have is as good as it gets
            break
        length = energy / curvature
        x = add_scaled(x, length, direction)
        residual = add_scaled(residual, -length, image)
        preconditioned = precondition(residual)
        next_energy = dot(residual, preconditioned)
        if next_energy < tolerance**2 * first:
            break
        direction = add_scaled(preconditioned, next_energy / energy, direction)
        energy = next_energy
    return x
