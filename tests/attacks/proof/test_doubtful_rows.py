"""Which row a search tries to do without, and what shows that it was needed: a table."""

from __future__ import annotations

import pytest
import torch

from exhume.attacks.proof.doubtful_rows import doubtful_row, recovered_loss


@pytest.mark.parametrize(
    ("costs", "row"),
    [
        ([0.3, 0.2, 0.5], None),
        ([0.3, 2e-4, 0.5], None),
        ([0.3, 1e-4, 0.5], None),  # as much as a needed row may cost
        ([0.3, 0.99e-4, 0.5], 1),
        ([5e-5, 0.1, 3e-6, 4e-5], 2),  # of several, the cheapest
        ([0.0], 0),
    ],
)
def test_the_cheapest_row_is_doubtful_where_it_costs_next_to_nothing(costs: list[float], row: int | None) -> None:
    assert doubtful_row(torch.tensor(costs, dtype=torch.float64)) == row


@pytest.mark.parametrize(
    ("before", "converged", "needed"),
    [
        (1e-10, 1e-18, 3e-10),  # three times the loss from before
        (1e-19, 1e-18, 1e-18),  # rounding is always good enough
        (0.0, 1e-18, 1e-18),
        (5e-19, 1e-18, 1.5e-18),
    ],
)
def test_a_search_must_come_back_to_its_loss_or_to_rounding(before: float, converged: float, needed: float) -> None:
    assert recovered_loss(before, converged=converged) == pytest.approx(needed)
