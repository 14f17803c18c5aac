"""Figures 1-5, 10 and 14: their trials are those that their titles and departures name."""

from __future__ import annotations

import pytest

from exhume.figures import FIGURES, SCALES
from exhume.figures.panels import Curves, Pictures
from exhume.figures.random_features import sphere_curves
from exhume.figures.trials import PAPER_STEPS
from exhume.lab.job import TrialJob, key_of
from support.figure_cases import Amount, amount, ratio, titles_are_true, trials_of

BOTH = {"gauss-newton", "projection-gd"}
QUICK = {
    "fig1": Amount({(3072, 10)}, {0}, BOTH, {100}),
    "fig2": Amount({(3072, 10)}, {0}, BOTH, {100}),
    "fig3": Amount({(30, 20), (50, 30), (100, 20)}, {0, 1, 2}, BOTH, {2000}),
    "fig4": Amount({(192, 10)}, {1}, BOTH, {1000}),
    "fig5": Amount({(768, 10)}, {0}, BOTH, {300}),
    "fig10": Amount({(192, 10)}, {1}, BOTH, {1000}),
    "fig14": Amount({(768, 10)}, {0}, BOTH, {300}),
}
PAPER = {
    "fig1": Amount({(3072, 100)}, set(range(4)), BOTH, {PAPER_STEPS}),
    "fig3": Amount({(30, 20), (100, 20), (100, 100)}, set(range(10)), BOTH, {PAPER_STEPS}),
    "fig4": Amount({(3072, 100)}, {1}, BOTH, {PAPER_STEPS}),
    "fig5": Amount({(12288, 20)}, {0}, BOTH, {PAPER_STEPS}),
    "fig14": Amount({(12288, 20)}, set(range(10)), BOTH, {PAPER_STEPS}),
}


@pytest.mark.parametrize(("name", "expected"), QUICK.items())
def test_the_quick_scale_is_what_departs_says(name: str, expected: Amount) -> None:
    assert amount(name, "quick") == expected


@pytest.mark.parametrize(("name", "expected"), PAPER.items())
def test_the_paper_scale_is_the_papers(name: str, expected: Amount) -> None:
    assert amount(name, "paper") == expected


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["fig1", "fig2", "fig3", "fig14"])
def test_titles_name_the_size_of_their_trials(name: str, scale: str) -> None:
    assert titles_are_true(name, scale)


def last_ratio(name: str, scale: str, line: int) -> float:
    """p / (d n) at the last point of a curve: ours is the first, the paper's the second."""
    (curves,) = [panel for panel in FIGURES[name].panels(scale) if isinstance(panel, Curves)]
    assert curves.n is not None
    assert curves.d is not None
    return curves.lines[line].points[-1][0] / (curves.n * curves.d)


@pytest.mark.parametrize("name", ["fig1", "fig2", "fig14"])
def test_a_quick_descent_is_drawn_up_to_four_dn_and_ours_to_ten(name: str) -> None:
    assert (last_ratio(name, "quick", 0), last_ratio(name, "quick", 1)) == (10, 4)
    assert (last_ratio(name, "paper", 0), last_ratio(name, "paper", 1)) == (10, 10)


@pytest.mark.parametrize(("name", "starts"), [("fig1", 1), ("fig2", 1), ("fig3", 4), ("fig14", 1)])
def test_a_quick_search_starts_once_on_photographs(name: str, starts: int) -> None:
    assert {trial.attack.starts for trial in trials_of(name, "quick", "gauss-newton")} == {starts}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["fig5", "fig14"])
def test_the_quick_descent_on_tiny_imagenet_takes_steps_of_400(name: str) -> None:
    assert {trial.attack.step_size for trial in trials_of(name, "quick", "projection-gd")} == {400.0}  # type: ignore[attr-defined]
    assert {trial.attack.step_size for trial in trials_of(name, "paper", "projection-gd")} == {None}  # type: ignore[attr-defined]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["fig1", "fig3", "fig14"])
def test_curves_pass_through_both_thresholds(name: str, scale: str) -> None:
    for panel in FIGURES[name].panels(scale):
        if isinstance(panel, Curves):
            assert panel.n is not None
            assert panel.d is not None
            xs = {x for x, _ in panel.lines[0].points}
            assert {panel.n, panel.n * panel.d, 10 * panel.n * panel.d} <= xs


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["fig1", "fig4", "fig5", "fig10", "fig14"])
def test_pictures_are_those_at_ten_dn_and_are_kept(name: str, scale: str) -> None:
    shown = [panel for panel in FIGURES[name].panels(scale) if isinstance(panel, Pictures)]
    assert shown
    for panel in shown:
        assert isinstance(panel.job, TrialJob)
        assert panel.job.keep
        assert ratio(panel.job.trial) == 10
        assert panel.count == panel.job.trial.data.n


def test_the_picture_of_figure_1_is_the_last_point_of_its_curve() -> None:
    curves, pictures = FIGURES["fig1"].panels("quick")
    assert isinstance(curves, Curves)
    assert isinstance(pictures, Pictures)
    assert key_of(pictures.job) == key_of(curves.lines[0].points[-1][1][0])


@pytest.mark.parametrize(("name", "activation"), [("fig4", "relu"), ("fig10", "relu+tanh")])
def test_signs_are_compared_under_the_activation_of_the_title(name: str, activation: str) -> None:
    assert {trial.activation for trial in trials_of(name, "quick")} == {activation}


def test_figure_2_draws_residuals_of_the_trials_of_figure_1() -> None:
    (panel,) = FIGURES["fig2"].panels("quick")
    assert isinstance(panel, Curves)
    assert [line.field for line in panel.lines] == ["rho_direction", "rho_direction", "span_residual", "span_residual"]
    assert {key_of(job) for job in panel.jobs()} <= {key_of(job) for job in FIGURES["fig1"].jobs("quick")}


def test_curves_on_the_sphere_draw_new_data_for_every_seed() -> None:
    panel = sphere_curves(30, 20, "quick")
    for line in panel.lines:
        for _, jobs in line.points:
            assert [job.trial.data.seed for job in jobs] == [job.trial.seed for job in jobs] == [0, 1, 2]  # type: ignore[attr-defined]


def test_large_trials_have_the_machine_to_themselves() -> None:
    assert {name for name in QUICK if FIGURES[name].alone} == {"fig1", "fig2"}
