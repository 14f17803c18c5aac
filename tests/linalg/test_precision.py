"""Tolerances by dtype, Cholesky factors of what is nearly singular, and Gram matrices summed block by block."""

from __future__ import annotations

import pytest
import torch

from exhume.linalg.precision import GramSum, cholesky, precision

CPU = torch.device("cpu")


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tolerances_lie_in_order_above_the_squared_rounding(dtype: torch.dtype) -> None:
    one = precision(dtype)
    assert torch.finfo(dtype).eps ** 2 < one.polished < one.converged < one.certified < 1e-6


def test_a_well_conditioned_matrix_has_its_own_factor() -> None:
    A = random(6, 4)
    gram = A.T @ A
    torch.testing.assert_close(cholesky(gram, jitter=1e-15), torch.linalg.cholesky(gram), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_a_singular_matrix_gets_a_ridge_of_the_size_of_rounding(scale: float) -> None:
    A = random(3, 8) * scale**0.5
    gram = A.T @ A  # rank 3 of 8
    factor = cholesky(gram, jitter=1e-15)
    assert (factor @ factor.T - gram).norm() < 1e-11 * gram.norm()


def test_zero_has_a_factor_too() -> None:
    factor = cholesky(torch.zeros(3, 3, dtype=torch.float64), jitter=1e-15)
    assert bool((factor.diagonal() > 0).all())
    assert (factor @ factor.T).norm() < 1e-300


@pytest.mark.parametrize("entry", [torch.nan, torch.inf])
def test_a_matrix_that_is_not_finite_is_an_error(entry: float) -> None:
    with pytest.raises(ArithmeticError, match="not finite"):
        cholesky(torch.full((3, 3), entry, dtype=torch.float64), jitter=1e-15)


@pytest.mark.parametrize("columns", [7, 512, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gram_sum_is_the_dense_product(columns: int, dtype: torch.dtype) -> None:
    V = random(1000, columns, dtype=dtype)
    total = GramSum(columns, dtype=dtype, device=CPU)
    for block in V.split(300):
        total.add(block)
    exact = V.double().T @ V.double()
    assert total.value().dtype == torch.float64
    assert torch.equal(total.value(), total.value().T)
    assert (total.value() - exact).norm() < 20 * torch.finfo(dtype).eps * exact.norm()


def test_many_rows_of_single_precision_do_not_lose_digits() -> None:
    """Sums of 8192 rows in float64, against all of them in float32."""
    block = torch.rand(64, 2, generator=torch.Generator().manual_seed(0))
    total, naive = GramSum(2, dtype=torch.float32, device=CPU), torch.zeros(2, 2)
    for _ in range(5_000):
        total.add(block)
        naive += block.T @ block
    exact = 5_000 * block.double().T @ block.double()
    assert ((total.value() - exact) / exact).abs().max() < 2e-5 < ((naive - exact) / exact).abs().max()


def test_asking_for_the_value_changes_nothing() -> None:
    V = random(600, 5, dtype=torch.float32)
    asked, quiet = (GramSum(5, dtype=torch.float32, device=CPU) for _ in range(2))
    for block in V.split(100):
        asked.add(block)
        quiet.add(block)
        asked.value()
    assert torch.equal(asked.value(), quiet.value())


def test_a_copy_goes_on_by_itself() -> None:
    V = random(9000, 4)
    total = GramSum(4, dtype=torch.float64, device=CPU)
    total.add(V[:5000])
    other = total.copy()
    other.add(V[5000:])
    torch.testing.assert_close(total.value(), V[:5000].T @ V[:5000])
    torch.testing.assert_close(other.value(), V.T @ V)
