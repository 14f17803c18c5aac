"""Success rates with their uncertainty."""

from __future__ import annotations

import math

import numpy as np
import pytest

from exhume.figures.statistics import threshold, threshold_interval, wilson


@pytest.mark.parametrize(("good", "total", "low", "high"), [(5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (20, 20, 0.8389, 1.0)])
def test_wilson_interval(good: int, total: int, low: float, high: float) -> None:
    assert wilson(good, total) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("good", "total"), [(0, 3), (1, 3), (7, 40), (40, 40)])
def test_wilson_is_the_closed_form(good: int, total: int) -> None:
    z, share = 1.959964, good / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    low, high = wilson(good, total)
    assert low == pytest.approx(max(0.0, centre - half), abs=1e-6)
    assert high == pytest.approx(min(1.0, centre + half), abs=1e-6)


def test_threshold_finds_the_ratio_at_one_half() -> None:
    generator = np.random.default_rng(0)
    ratios = np.repeat(np.geomspace(0.5, 8, 9), 40)
    seeds = np.tile(np.arange(40), 9)
    outcome = generator.random(ratios.shape) < 1 / (1 + np.exp(-6 * (np.log(ratios) - np.log(1.7))))
    at = threshold(ratios, outcome)
    assert at == pytest.approx(1.7, rel=0.1)
    interval = threshold_interval(ratios, outcome, seeds)
    assert interval is not None
    assert interval[0] < 1.7 < interval[1]
    assert interval[1] / interval[0] < 1.5
    assert threshold(ratios, ratios > 0) is None
    assert threshold(np.array([1.0, 2.0, 3.0, 6.0]), np.array([False, True, False, False])) is None  # no crossing upwards
    assert threshold(np.array([1.0, 2.0, 3.0]), np.array([False, False, True])) == pytest.approx(6**0.5, rel=0.05)


def test_a_threshold_outside_the_ratios_tried_is_none() -> None:
    ratios = np.repeat([1.0, 2.0, 4.0], 20)
    mostly = np.tile([False] + [True] * 19, 3)
    assert threshold(ratios, mostly) is None  # nearly all succeed: one half lies below the least ratio
    assert threshold(ratios, ~mostly) is None


def test_no_outcome_but_one_is_no_interval() -> None:
    ratios, groups = np.tile([1.0, 2.0], 4), np.repeat(range(4), 2)
    assert threshold_interval(ratios, ratios > 0, groups) is None


def test_seeds_that_agree_leave_no_uncertainty() -> None:
    ratios, groups = np.tile([1.0, 2.0, 4.0], 5), np.repeat(range(5), 3)
    interval = threshold_interval(ratios, ratios > 1.5, groups)
    assert interval is not None
    assert interval[0] == pytest.approx(interval[1], rel=0.02)
    assert interval[0] == pytest.approx(2**0.5, rel=0.05)
