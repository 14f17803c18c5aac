"""Ranks from gaps."""

from __future__ import annotations

import pytest
import torch

from exhume.linalg.numerical_rank import rank_by_gap, spectrum_of


def matrix(rank: int, *, noise: float = 0.0, columns: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(30, rank, generator=generator, dtype=torch.float64) @ torch.randn(
        rank, columns, generator=generator, dtype=torch.float64
    )
    return A + noise * torch.randn(A.shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-4])
@pytest.mark.parametrize("rank", [1, 5, 11])
def test_the_rank_is_where_the_spectrum_falls(rank: int, noise: float) -> None:
    assert rank_by_gap(spectrum_of(matrix(rank, noise=noise)), 2.2e-16) == rank


def test_a_full_spectrum_has_no_gap() -> None:
    assert rank_by_gap(spectrum_of(matrix(12)), 2.2e-16) is None


def test_nothing_has_no_rank() -> None:
    assert rank_by_gap(spectrum_of(torch.zeros(4, 3)), 1e-7) is None
    assert rank_by_gap(torch.ones(1), 1e-7) is None


def test_inputs_that_never_changed_do_not_end_the_spectrum() -> None:
    A = matrix(3, noise=1e-6)
    padded = torch.cat([A, torch.zeros(30, 5, dtype=torch.float64)], dim=1)
    assert len(spectrum_of(padded)) == 12
    assert rank_by_gap(spectrum_of(padded), 1.2e-7) == 3


def test_gaps_below_rounding_do_not_count() -> None:
    assert rank_by_gap(torch.tensor([1.0, 0.5, 1e-9, 1e-30]).double(), 1.2e-7) == 2
