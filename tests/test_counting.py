"""Equations against unknowns, by hand and by simulation."""

from __future__ import annotations

import pytest
import torch

from exhume import counting


@pytest.mark.parametrize(
    ("rows", "d", "k", "on_sphere", "count"),
    [
        (20, 100, 1, True, 2000),  # the paper's sphere: d n
        (20, 100, 1, False, 2020),
        (10, 3072, 1, False, 30_730),
        (10, 3072, 10, True, 30_810),
        (0, 5, 1, True, 0),
    ],
)
def test_a_row_has_its_coordinates_and_one_coefficient_per_output(rows: int, d: int, k: int, on_sphere: bool, count: int) -> None:
    assert counting.unknowns(rows, d, k, on_sphere=on_sphere) == count


def test_a_margin_is_equations_per_unknown() -> None:
    assert counting.margin(3000, 2000) == 1.5
    assert counting.margin(7, 0) == 7.0


@pytest.mark.parametrize(
    ("p", "d", "k"), [(5000, 100, 1), (500, 20, 3), (60, 30, 1), (30, 30, 1), (1, 100, 1), (2200, 100, 1), (2201, 100, 1)]
)
def test_most_rows_is_the_largest_number_that_leaves_a_margin(p: int, d: int, k: int) -> None:
    equations = p * k - (d + 1) * k  # what [1, V] leaves
    fitting = [m for m in range(1, 200) if equations >= 1.05 * counting.unknowns(m, d, k, on_sphere=True)]
    assert counting.most_rows(p, d, k) == max(fitting, default=1)


def test_numbers_fitted_to_noise_take_their_share_of_it() -> None:
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(1000, 50, generator=draw, dtype=torch.float64)
    Q = torch.linalg.qr(torch.randn(1000, 80, generator=draw, dtype=torch.float64))[0]
    gained = (Q.T @ noise).square().sum() / noise.square().sum()
    assert counting.noise_gain(1.0, unknowns=80, equations=1000) == pytest.approx(float(gained), rel=0.05)
    assert counting.noise_gain(1e-3, unknowns=80, equations=1000) == pytest.approx(8e-5)
