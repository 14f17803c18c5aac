"""Paper 2: widths, intrinsic dimensions and seeds as titles and departures name them."""

from __future__ import annotations

import pytest

from exhume.figures import FIGURES, SCALES
from exhume.figures.panels import Curves
from exhume.figures.success_rates import SuccessRates
from exhume.lab.job import key_of
from support.figure_cases import Amount, amount, titles_are_true, trials_of

ALL = {"gauss-newton", "projection-gd", "subspace"}


@pytest.mark.parametrize(
    ("name", "scale", "expected"),
    [
        ("paper2-width", "quick", Amount({(40, 16)}, set(range(3)), {"subspace"}, set())),
        ("paper2-width", "paper", Amount({(100, 50)}, set(range(10)), {"subspace"}, set())),
        ("paper2-subspace", "quick", Amount({(40, 16)}, set(range(3)), ALL, {2000})),
        ("paper2-subspace", "paper", Amount({(100, 50)}, set(range(10)), ALL, {60_000})),
        ("paper2-pac", "quick", Amount({(40, 8), (40, 16)}, set(range(20)), {"gauss-newton", "subspace"}, set())),
        ("paper2-pac", "paper", Amount({(100, 20), (100, 50)}, set(range(100)), {"gauss-newton", "subspace"}, set())),
    ],
)
def test_both_scales_are_what_is_said_of_them(name: str, scale: str, expected: Amount) -> None:
    assert amount(name, scale) == expected


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["paper2-width", "paper2-subspace", "paper2-pac"])
def test_titles_name_the_size_of_their_trials(name: str, scale: str) -> None:
    assert titles_are_true(name, scale)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["paper2-width", "paper2-subspace"])
def test_a_width_is_that_many_units_for_every_output(name: str, scale: str) -> None:
    for panel in FIGURES[name].panels(scale):
        assert isinstance(panel, Curves)
        assert panel.n is None  # against width, the thresholds in p have no place
        for line in panel.lines:
            for x, jobs in line.points:
                for job in jobs:
                    trial = job.trial  # type: ignore[attr-defined]
                    assert trial.ratio * trial.data.d * trial.data.n / trial.k == pytest.approx(x)


@pytest.mark.parametrize(("scale", "ranks"), [("quick", [4, 8, 40]), ("paper", [5, 10, 20, 100])])
def test_every_intrinsic_dimension_has_a_line_up_to_d(scale: str, ranks: list[int]) -> None:
    (panel,) = FIGURES["paper2-width"].panels(scale)
    assert isinstance(panel, Curves)
    assert [line.label for line in panel.lines] == [f"r = {r}" for r in ranks]
    for line, rank in zip(panel.lines, ranks, strict=True):
        assert {job.trial.data.rank for _, jobs in line.points for job in jobs} == {rank}  # type: ignore[attr-defined]
    assert ranks[-1] == trials_of("paper2-width", scale)[0].data.d
    n = trials_of("paper2-width", scale)[0].data.n
    assert n is not None
    assert n > ranks[1]  # so many samples do span the smaller ones


def test_the_least_and_the_largest_dimension_are_searched_in_three_ways() -> None:
    panels = FIGURES["paper2-subspace"].panels("quick")
    for panel, rank in zip(panels, (4, 40), strict=True):
        assert isinstance(panel, Curves)
        assert f"r = {rank}," in panel.title
        names = [{job.trial.attack.name for _, jobs in line.points for job in jobs} for line in panel.lines]  # type: ignore[attr-defined]
        assert names == [{"subspace"}, {"gauss-newton"}, {"projection-gd"}]
        assert {job.trial.data.rank for job in panel.jobs()} == {rank}  # type: ignore[attr-defined]
        assert all(job.trial.knowledge.n is (job.trial.attack.name == "projection-gd") for job in panel.jobs())  # type: ignore[attr-defined]


@pytest.mark.parametrize(("scale", "counts"), [("quick", (20, 6)), ("paper", (100, 50))])
def test_the_pac_claim_is_counted_over_many_seeds(scale: str, counts: tuple[int, int]) -> None:
    fixed, trained = FIGURES["paper2-pac"].panels(scale)
    for panel, count in zip((fixed, trained), counts, strict=True):
        assert isinstance(panel, SuccessRates)
        assert f"{count} seeds" in panel.title
        for _, _, at in panel.lines:
            assert {len(jobs) for _, jobs in at} == {count}
            assert all(len({key_of(job) for job in jobs}) == count for _, jobs in at)
    assert isinstance(fixed, SuccessRates)
    d, n = fixed.jobs()[0].trial.data.d, fixed.jobs()[0].trial.data.n  # type: ignore[attr-defined]
    assert fixed.mark == d * n
    assert all(job.trial.p == x for _, _, at in fixed.lines for x, jobs in at for job in jobs)  # type: ignore[attr-defined]
    assert isinstance(trained, SuccessRates)
    assert trained.mark is None
