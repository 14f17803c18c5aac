"""Shares of seeds that recovered their data, with Wilson intervals and the point at one half."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exhume.figures.panels import Points
from exhume.figures.sheet import Results
from exhume.figures.statistics import threshold, wilson
from exhume.figures.success_rates import SuccessRates, describe_half, half_point, recoveries
from exhume.figures.trials import ours, points, sphere
from exhume.lab.store import Store
from support.figure_cases import drawn, keep, level, line_named, upright, words

RATIOS = (1.0, 1.05, 2.0, 4.0)
GOOD = {1.0: [0, 0, 0], 1.05: [0, 0, 1], 2.0: [1, 0, 1], 4.0: [1, 1]}  # one seed of 4 is not finished


def at(attack_seed: int = 0) -> Points:
    return points(lambda r, seed: ours(sphere(10, 4, seed), round(r * 40) + 1000 * attack_seed, seed), RATIOS, range(3))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    made = Store(tmp_path_factory.mktemp("store"))
    for x, jobs in at():
        for seed, (job, good) in enumerate(zip(jobs, GOOD[x], strict=False)):
            keep(made, job, {"rho": 0.5 if good else 0.51, "seed": seed})
    return made


@pytest.fixture(scope="module")
def half(store: Store) -> tuple:
    found = half_point(Results(store), at())
    assert found is not None
    return found


def test_recoveries_are_counted_where_anything_was_run(store: Store) -> None:
    assert recoveries(Results(store), at()) == [(1.0, 0, 3), (1.05, 1, 3), (2.0, 2, 3), (4.0, 2, 2)]
    assert recoveries(Results(store), at(1)) == []


def test_the_point_at_one_half_is_that_of_a_logistic_curve(store: Store, half: tuple) -> None:
    ratios = np.array([x for x in RATIOS for _ in GOOD[x]])
    expected = threshold(ratios, np.array([good for x in RATIOS for good in GOOD[x]], dtype=bool))
    assert half[0] == pytest.approx(expected)
    assert half[1] is not None
    assert half[1][0] <= half[0] <= half[1][1]
    assert half[2:] == (1.0, 4.0)
    assert half_point(Results(store), at(1)) is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ((1.678, (1.5, 1.821), 1.0, 4.0), "1.68 (1.5 to 1.82)"),
        ((1.678, None, 1.0, 4.0), "1.68"),
        ((None, None, 1.0, 4.0), "no point in 1 to 4"),
    ],
)
def test_the_half_is_told_in_words(found: tuple, text: str) -> None:
    assert describe_half(found) == text


def test_the_panel_shows_shares_intervals_and_the_law(store: Store, half: tuple) -> None:
    panel = SuccessRates("a title", (("mine", "red", at()), ("later", "blue", at(1))))
    (axes,) = drawn(panel, store)
    line = line_named(axes, f"mine: half at {describe_half(half)}")
    np.testing.assert_array_equal(line.get_xdata(), RATIOS)
    np.testing.assert_allclose(line.get_ydata(), [0, 1 / 3, 2 / 3, 1])
    bars = [tuple(segment[:, 1]) for segment in axes.collections[0].get_segments()]
    np.testing.assert_allclose(bars, [wilson(*counts) for counts in ((0, 3), (1, 3), (2, 3), (2, 2))])
    assert len(axes.get_legend().get_texts()) == 1  # what has not begun is left out
    assert upright(axes) == [1.0]
    assert level(axes) == [0.5]
    assert words(axes) == ["p = dn"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4"]  # 1.05 is too near to 1
    assert axes.get_ylabel() == "share of seeds with ρ below 0.5"


def test_a_panel_may_have_no_mark(store: Store) -> None:
    (axes,) = drawn(SuccessRates("", (("mine", "red", at()[:1]),), "width", None), store)
    assert line_named(axes, "mine: half at no point in 1 to 1").get_ydata().tolist() == [0.0]
    assert upright(axes) == []
    assert axes.get_xlabel() == "width"


def test_a_panel_whose_jobs_have_not_begun_is_empty(tmp_path: Path) -> None:
    (axes,) = drawn(SuccessRates("later", (("mine", "red", at()),)), Store(tmp_path))
    assert (axes.get_title(), len(axes.collections)) == ("later", 0)


def test_the_panel_needs_the_jobs_of_all_lines() -> None:
    panel = SuccessRates("", (("a", "red", at()), ("b", "blue", at(1))))
    assert len(panel.jobs()) == 24
