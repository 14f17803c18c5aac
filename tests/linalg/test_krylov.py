"""The block Krylov range finder against dense eigenvalues and explicit powers."""

from __future__ import annotations

import pytest
import torch

from exhume.linalg.krylov import krylov_basis, krylov_width, leading, top_eigenpairs

D = 60


def random(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_outliers(count: int = 6) -> torch.Tensor:
    """A symmetric matrix with a bulk of spread one and a few eigenvalues of either sign outside of it."""
    Q = torch.linalg.qr(random(D, D))[0]
    values = torch.linspace(-1, 1, D, dtype=torch.float64)
    values[:count] = torch.tensor([(-1) ** i * (8.0 - i) for i in range(count)], dtype=torch.float64)
    return Q @ torch.diag(values) @ Q.T


def test_leading_pairs_are_those_of_largest_modulus() -> None:
    A = with_outliers()
    values, vectors = top_eigenpairs(lambda x: A @ x, random(D, krylov_width(4, D), 1), 4)
    torch.testing.assert_close(values, torch.tensor([8.0, -7.0, 6.0, -5.0], dtype=torch.float64), rtol=1e-4, atol=0)
    torch.testing.assert_close(A @ vectors, vectors * values, rtol=0, atol=0.05)
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(4, dtype=torch.float64))


@pytest.mark.parametrize("rank", [1, 3, 8, D])
def test_the_basis_is_orthonormal_whatever_the_rank(rank: int) -> None:
    U = random(D, rank, 2)
    A = U @ U.T
    basis, image = krylov_basis(lambda x: A @ x, random(D, 7), 4)
    assert basis.shape == (D, 35)
    torch.testing.assert_close(basis.T @ basis, torch.eye(35, dtype=torch.float64), rtol=0, atol=1e-12)
    torch.testing.assert_close(image, A @ basis)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_low_rank_is_found_exactly(rank: int) -> None:
    U = random(D, rank, 2)
    A = U @ U.T
    values, _ = top_eigenpairs(lambda x: A @ x, random(D, 8), rank)
    torch.testing.assert_close(values, torch.linalg.eigvalsh(A).flip(0)[:rank])


def test_the_basis_spans_the_powers_of_the_start() -> None:
    A, S = with_outliers(), random(D, 3, 1)
    basis, _ = krylov_basis(lambda x: A @ x, S, 3)
    powers = torch.cat([torch.linalg.matrix_power(A, k) @ S for k in range(4)], dim=1)
    assert basis.shape[1] == torch.linalg.matrix_rank(powers) == 12
    assert (powers - basis @ (basis.T @ powers)).norm() < 1e-9 * powers.norm()


@pytest.mark.parametrize("d", [5, 11, 17])
def test_a_small_space_is_not_left(d: int) -> None:
    A = random(d, d)
    A = A + A.T
    basis, _ = krylov_basis(lambda x: A @ x, random(d, 5, 1), 4)
    assert basis.shape[1] == 5 * (d // 5)
    torch.testing.assert_close(basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64))


def test_a_whole_basis_gives_all_pairs() -> None:
    A = with_outliers()
    whole = torch.eye(D, dtype=torch.float64)
    values, vectors = leading(whole, A, 10)
    expected = torch.linalg.eigvalsh(A)
    torch.testing.assert_close(values, expected[expected.abs().argsort(descending=True)[:10]])
    torch.testing.assert_close(A @ vectors, vectors * values)


def test_a_start_has_a_few_columns_to_spare_and_never_more_than_the_space() -> None:
    assert krylov_width(10, 100) == 14
    assert krylov_width(10, 12) == 12
