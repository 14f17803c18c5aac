"""Conjugate gradients against a dense solve."""

from __future__ import annotations

import pytest
import torch

from exhume.linalg.conjugate_gradients import Group, add_scaled, conjugate_gradients, dot

SHAPES = ((3, 4), (5,), (2, 1))
SIZE = 19


def grouped(vector: torch.Tensor) -> Group:
    parts = vector.split([torch.Size(shape).numel() for shape in SHAPES])
    return tuple(part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True))


def flat(group: Group) -> torch.Tensor:
    return torch.cat([part.flatten() for part in group])


class System:
    """H x = b with H positive definite, that counts its products."""

    def __init__(self, *, condition: float = 1e3, seed: int = 0) -> None:
        draw = torch.Generator().manual_seed(seed)
        Q = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=draw, dtype=torch.float64))[0]
        values = torch.logspace(0, -torch.log10(torch.tensor(condition)).item(), SIZE, dtype=torch.float64)
        self.H = Q @ torch.diag(values) @ Q.T
        self.b = torch.randn(SIZE, generator=draw, dtype=torch.float64)
        self.products = 0

    def product(self, x: Group) -> Group:
        self.products += 1
        return grouped(self.H @ flat(x))

    def solve(self, precondition: torch.Tensor | None = None, *, steps: int = 200, tolerance: float = 1e-12) -> torch.Tensor:
        M = torch.eye(SIZE, dtype=torch.float64) if precondition is None else precondition
        x = conjugate_gradients(self.product, grouped(self.b), lambda r: grouped(M @ flat(r)), steps=steps, tolerance=tolerance)
        assert [part.shape for part in x] == [torch.Size(shape) for shape in SHAPES]
        return flat(x)


def test_groups_add_and_multiply_as_vectors() -> None:
    a, b = (torch.randn(SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) for seed in (0, 1))
    assert dot(grouped(a), grouped(b)) == pytest.approx(float(a @ b))
    torch.testing.assert_close(flat(add_scaled(grouped(a), -2.5, grouped(b))), a - 2.5 * b)
    for operation in (dot, lambda x, y: add_scaled(x, 1.0, y)):
        with pytest.raises(ValueError, match="shorter"):
            operation(grouped(a), grouped(b)[:2])


def test_products_of_single_precision_are_summed_in_double() -> None:
    ones = (torch.ones(2**25, dtype=torch.float32), torch.ones(1, dtype=torch.float32))  # 2^24 + 1 is no float32
    assert dot(ones, ones) == 2**25 + 1


@pytest.mark.parametrize("seed", [0, 1])
def test_the_solution_is_the_dense_one(seed: int) -> None:
    system = System(seed=seed)
    torch.testing.assert_close(system.solve(), torch.linalg.solve(system.H, system.b), rtol=1e-8, atol=1e-8)


def test_few_distinct_eigenvalues_need_as_many_steps() -> None:
    system = System()
    values, vectors = torch.linalg.eigh(system.H)
    system.H = vectors @ torch.diag(values > values.median()).double() @ vectors.T + torch.eye(SIZE, dtype=torch.float64)
    torch.testing.assert_close(system.solve(tolerance=1e-10), torch.linalg.solve(system.H, system.b))
    assert system.products == 2


def test_the_inverse_as_preconditioner_needs_one_step() -> None:
    system = System()
    torch.testing.assert_close(system.solve(torch.linalg.inv(system.H)), torch.linalg.solve(system.H, system.b))
    assert system.products == 1


@pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
def test_it_stops_when_the_residual_has_fallen_and_no_later(tolerance: float) -> None:
    system = System(condition=1e2)
    residual = (system.b - system.H @ system.solve(tolerance=tolerance)).norm() / system.b.norm()
    assert residual < tolerance
    used = system.products
    before = (system.b - system.H @ system.solve(steps=used - 1, tolerance=tolerance)).norm() / system.b.norm()
    assert before >= tolerance


def test_it_never_takes_more_products_than_it_may() -> None:
    system = System()
    first = system.solve(steps=1)
    assert system.products == 1
    b, H = system.b, system.H
    torch.testing.assert_close(first, b * (b @ b) / (b @ H @ b))  # one step of steepest descent
    assert bool((System().solve(steps=0) == 0).all())


def test_zero_has_the_solution_zero() -> None:
    system = System()
    system.b = torch.zeros(SIZE, dtype=torch.float64)
    assert bool((system.solve() == 0).all())
    assert system.products == 0


@pytest.mark.parametrize("sign", [0, -1])
def test_a_direction_without_curvature_ends_it(sign: int) -> None:
    system = System()
    system.H = sign * system.H
    assert bool((system.solve() == 0).all())
    assert system.products == 1
