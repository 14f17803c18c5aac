"""Columns by their zeros, on planted changes."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks.factors.column_space import ColumnSpace, column_space, sample_span
from exhume.attacks.factors.zero_sets import (
    candidate_zeros,
    exact_column,
    needed_extra,
    null_vectors,
    off_units,
    smallest_directions,
)
from support.planted_layer import Planted, planted_layer


def spaces(case: Planted) -> tuple[ColumnSpace, torch.Tensor, torch.Tensor]:
    """The column space, the true columns q, and the samples as coordinates z."""
    space = sample_span(case.layer, len(case.X))
    columns = column_space(case.layer, space, equalise=True)
    q = columns.column(torch.linalg.inv(case.X @ space.basis))
    return columns, q, columns.V.T @ (case.X @ space.basis).T


def test_the_units_most_off_are_off() -> None:
    case = planted_layer()
    columns, _, z = spaces(case)
    off = off_units(columns, z, share=0.8)
    assert all(bool((case.Delta[off[i], i] == 0).all()) for i in range(6))


@pytest.mark.parametrize("switched", [0.0, 0.3])
def test_the_null_vector_of_off_units_is_the_column(switched: float) -> None:
    case = planted_layer(h=160, switched=switched)
    columns, q, z = spaces(case)
    rough = z + 0.3 * z.norm(dim=0) * torch.nn.functional.normalize(
        torch.randn(z.shape, generator=torch.Generator().manual_seed(1)), dim=0
    )
    found = null_vectors(columns, off_units(columns, rough, share=0.8), rounds=10)
    hits = ((found * q).sum(0).abs() > 1 - 1e-10).sum()
    assert int(hits) >= 5


def test_an_exact_column_has_all_zeros_of_its_sample() -> None:
    case = planted_layer(noise=1e-6, h=160)
    columns, q, _ = spaces(case)
    for i in range(6):
        some = candidate_zeros(columns, q[:, i : i + 1])[:, 0]
        some[torch.nonzero(some)[20:, 0]] = False  # a part of them is enough
        column = exact_column(columns, some)
        assert column is not None
        assert abs(float(column.q @ q[:, i])) > 1 - 1e-8
        zeros = case.Delta[:, i] == 0
        assert int((column.zero & ~zeros).sum()) == 0
        assert int((zeros & ~column.zero).sum()) <= 3


def test_a_combination_of_columns_is_refused_also_with_accidental_zeros() -> None:
    case = planted_layer(h=160)
    columns, q, _ = spaces(case)
    entries = columns.U @ q
    unit = int(((entries[:, 0] != 0) & (entries[:, 0].abs() > 1e-3) & (entries[:, 1].abs() > 1e-3)).nonzero()[0, 0])
    mixed = q[:, 0] - entries[unit, 0] / entries[unit, 1] * q[:, 1]  # vanishes at that unit besides
    zero = candidate_zeros(columns, (mixed / mixed.norm())[:, None])[:, 0]
    assert bool(zero[unit])
    assert int(zero.sum()) > columns.r + 10
    assert exact_column(columns, zero) is None


def test_too_few_zeros_are_refused() -> None:
    case = planted_layer()
    columns = spaces(case)[0]
    zero = torch.zeros(90, dtype=torch.bool)
    zero[:4] = True
    assert exact_column(columns, zero) is None
    assert exact_column(columns, torch.ones(90, dtype=torch.bool)) is None


def test_more_noise_demands_more_zeros() -> None:
    few, many = (needed_extra(torch.full((200,), p)) for p in (1e-12, 1e-2))
    assert few == 2
    assert many > 4


def test_smallest_directions_are_those_of_the_svd() -> None:
    for shape in ((9, 4), (3, 4)):
        A = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        vectors, values = smallest_directions(A)
        assert torch.allclose(torch.linalg.svdvals(A), values[: min(shape)])
        assert float((A @ vectors[-1]).norm()) == pytest.approx(float(values[-1]), abs=1e-12)
