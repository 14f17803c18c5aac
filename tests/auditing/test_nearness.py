"""How near rows are to samples, in which view, and when that is more than chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom

from exhume.auditing.nearness import as_is, beyond_chance, directions, near, nearest, references, views
from support.audit_cases import vectors


def far(count: int) -> torch.Tensor:
    return torch.full((count,), 0.5, dtype=torch.float64)


def test_chance_is_told_by_distance_and_number() -> None:
    others = torch.linspace(0.05, 2, 500, dtype=torch.float64)  # 13 of 500 within 0.1
    one = torch.cat([torch.tensor([0.09], dtype=torch.float64), far(19)])
    assert not beyond_chance(one, others, 0.1)
    exact = torch.cat([torch.tensor([1e-9], dtype=torch.float64), far(19)])
    assert beyond_chance(exact, others, 0.1)
    assert beyond_chance(torch.full((20,), 0.09, dtype=torch.float64), others, 0.1)


@pytest.mark.parametrize("found", range(13))
def test_the_test_is_binomial_at_one_percent_over_four_distances(found: int) -> None:
    # A fifth of the others is near and none nearer; the samples lie just within, so that only the widest distance counts.
    others = torch.cat([torch.full((100,), 0.09), torch.full((400,), 1.0)]).double()
    errors = torch.cat([torch.full((found,), 0.09), torch.full((20 - found,), 1.0)]).double()
    rate = 101 / 501  # that of an unseen one more
    by_hand = found > 0 and bool(4 * binom.sf(found - 1, 20, rate) < 0.01)
    assert beyond_chance(errors, others, 0.1) is by_hand


def test_nothing_near_is_never_beyond_chance() -> None:
    assert not beyond_chance(far(20), far(500), 0.1)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("known norm", (as_is,)),
        ("fitted", (as_is,)),
        ("unknown", (directions,)),
        ("from labels", (as_is, directions)),
        ("from the bias", (as_is, directions)),
    ],
)
def test_lengths_that_were_inferred_may_be_left_out_of_account(scale: str, expected: tuple) -> None:
    assert views(scale) == expected


def test_directions_have_length_sqrt_d_and_keep_their_sign() -> None:
    rows = torch.tensor([[3.0, 4.0, 0.0, 0.0], [-1e-9, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    expected = [[1.2, 1.6, 0, 0], [-2, 0, 0, 0], [0, 0, 0, 0]]
    torch.testing.assert_close(directions(rows), torch.tensor(expected, dtype=torch.float64))
    assert as_is(rows) is rows


def test_the_nearest_row_is_that_of_brute_force() -> None:
    rng = np.random.default_rng(0)
    rows, samples = rng.normal(size=(7, 5)), rng.normal(size=(11, 5))
    distances = np.array([[np.linalg.norm(x - r) / np.linalg.norm(x) for r in rows] for x in samples])
    errors, index = nearest(torch.as_tensor(rows), torch.as_tensor(samples))
    np.testing.assert_allclose(errors.numpy(), distances.min(1))
    np.testing.assert_array_equal(index.numpy(), distances.argmin(1))
    assert torch.equal(near(torch.as_tensor(rows), torch.as_tensor(samples)), errors)


def test_an_equal_row_is_at_no_distance() -> None:
    """The usual shortcut, |x|^2 + |r|^2 - 2 x r, would leave rounding of 1e-8."""
    x = 1e3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert near(x, x).max() == 0


def test_without_rows_everything_is_infinitely_far() -> None:
    errors, index = nearest(torch.zeros(0, 3), torch.ones(2, 3))
    assert errors.tolist() == [np.inf, np.inf]
    assert index.tolist() == [0, 0]


def test_references_are_held_out_samples_or_training_columns_drawn_anew() -> None:
    truth = vectors(torch.arange(12.0).reshape(4, 3) + 1)
    held_out = vectors(torch.ones(2, 3))
    rows, what = references(truth, held_out, seed=0)
    assert (rows is held_out.rows, what) == (True, "held-out samples")
    rows, what = references(truth, None, seed=0)
    assert rows.shape == (500, 3)
    assert "columns shuffled" in what
    for column in range(3):
        assert set(rows[:, column].tolist()) == set(truth.rows[:, column].tolist())
    assert torch.equal(rows, references(truth, None, seed=0)[0])
    assert not torch.equal(rows, references(truth, None, seed=1)[0])
    # Columns are drawn one by one: 4^3 combinations, of which only 4 are training samples.
    assert len(torch.unique(rows, dim=0)) > 50
