"""Figures 6-9, 13 and 17: networks and classification losses, at the sizes that titles and departures name."""

from __future__ import annotations

from typing import Any

import pytest

from exhume.data.registry import shape_of
from exhume.figures import FIGURES, SCALES
from exhume.figures.networks import logistic, resnet, two_layer
from exhume.figures.panels import Curves, Pictures
from exhume.figures.trials import PAPER_STEPS
from exhume.lab.job import TrialJob, key_of
from support.figure_cases import ratio, titles_are_true, trials_of


def counted(name: str, scale: str, **fields: Any) -> dict[str, Any]:
    """Shapes, seeds and steps of projection-gd among the trials of a figure whose fields are these."""
    trials = [trial for trial in trials_of(name, scale) if all(getattr(trial, key) == value for key, value in fields.items())]
    return {
        "shapes": {shape_of(trial.data) for trial in trials},
        "seeds": {trial.seed for trial in trials},
        "steps": {getattr(trial.attack, "max_steps", None) for trial in trials} - {None},
    }


@pytest.mark.parametrize(
    ("name", "fields", "shape", "seeds", "steps"),
    [
        ("fig6", {"victim": "two-layer"}, (192, 10), 2, 2000),
        ("fig6", {"victim": "resnet"}, (192, 4), 1, 300),
        ("fig7", {"victim": "two-layer", "loss": "square"}, (192, 20), 1, 2000),
        ("fig8", {"victim": "rf", "loss": "logistic"}, (30, 20), 3, 2000),
        ("fig8", {"victim": "two-layer", "loss": "cross-entropy"}, (192, 10), 2, 2000),
        ("fig9", {"victim": "rf"}, (100, 20), 3, 2000),
        ("fig9", {"victim": "two-layer"}, (192, 10), 2, 2000),
        ("fig9", {"victim": "resnet"}, (192, 4), 1, 300),
        ("fig13", {"victim": "vit"}, (192, 4), 1, 300),
        ("fig17", {"victim": "two-layer", "loss": "cross-entropy"}, (192, 20), 1, 2000),
    ],
)
def test_the_quick_scale_is_what_departs_says(name: str, fields: dict, shape: tuple[int, int], seeds: int, steps: int) -> None:
    assert counted(name, "quick", **fields) == {"shapes": {shape}, "seeds": set(range(seeds)), "steps": {steps}}


@pytest.mark.parametrize(
    ("name", "fields", "shape", "seeds"),
    [
        ("fig6", {"victim": "two-layer"}, (3072, 10), 10),
        ("fig6", {"victim": "resnet"}, (3072, 10), 10),
        ("fig7", {}, (3072, 100), 1),
        ("fig8", {"victim": "rf"}, (100, 100), 10),
        ("fig13", {}, (3072, 5), 10),
        ("fig17", {}, (3072, 100), 1),
    ],
)
def test_the_paper_scale_is_the_papers(name: str, fields: dict, shape: tuple[int, int], seeds: int) -> None:
    expected = {"shapes": {shape}, "seeds": set(range(seeds)), "steps": {PAPER_STEPS}}
    assert counted(name, "paper", **fields) == expected


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["fig6", "fig8", "fig9", "fig13"])
def test_titles_name_the_size_of_their_trials(name: str, scale: str) -> None:
    assert titles_are_true(name, scale)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("curves", [two_layer, resnet, lambda scale: FIGURES["fig13"].panels(scale)[0]])
def test_a_curve_stands_where_its_networks_have_that_many_parameters(curves: Any, scale: str) -> None:
    panel = curves(scale)
    for line in panel.lines:
        for x, jobs in line.points:
            assert {round(ratio(job.trial) * panel.d * panel.n) for job in jobs} == {round(x)}


@pytest.mark.parametrize(
    ("panel", "attacks"),
    [
        (two_layer("quick"), {"gauss-newton", "subspace", "projection-gd"}),
        (resnet("quick"), {"gauss-newton", "projection-gd"}),
        (logistic("quick"), {"gauss-newton", "projection-gd"}),
    ],
)
def test_every_attack_has_a_line_of_errors_of_its_own(panel: Curves, attacks: set[str]) -> None:
    lines = [line for line in panel.lines if line.field == "rho"]
    for line in lines:
        (name,) = {job.trial.attack.name for _, jobs in line.points for job in jobs}  # type: ignore[attr-defined]
        assert name in line.label
        attacks = attacks - {name}
    assert not attacks
    assert panel.lines[-1].field == "train_loss"


def test_residuals_are_drawn_where_they_are_asked_for() -> None:
    assert "span_residual" not in {line.field for line in two_layer("quick").lines}
    for panel in FIGURES["fig9"].panels("quick"):
        assert isinstance(panel, Curves)
        assert "span_residual" in {line.field for line in panel.lines}


@pytest.mark.parametrize(("name", "loss"), [("fig7", "square"), ("fig17", "cross-entropy")])
@pytest.mark.parametrize("scale", SCALES)
def test_all_images_of_a_ten_class_network_are_shown_at_four_dn(name: str, loss: str, scale: str) -> None:
    panels = FIGURES[name].panels(scale)
    assert [panel.job.trial.attack.name for panel in panels if isinstance(panel, Pictures)] == ["projection-gd", "subspace"]  # type: ignore[attr-defined]
    for panel in panels:
        assert isinstance(panel, Pictures)
        assert isinstance(panel.job, TrialJob)
        trial = panel.job.trial
        assert (trial.victim, trial.k, trial.ratio, trial.loss, panel.job.keep) == ("two-layer", 10, 4.0, loss, True)
        assert panel.count == trial.data.n


@pytest.mark.parametrize("scale", SCALES)
def test_transformers_are_told_n_and_shown_at_their_last_point(scale: str) -> None:
    curves, *pictures = FIGURES["fig13"].panels(scale)
    assert all(trial.knowledge.n and trial.k == trial.data.n for trial in trials_of("fig13", scale))
    assert isinstance(curves, Curves)
    ends = {key_of(line.points[-1][1][0]) for line in curves.lines}
    assert {key_of(panel.job) for panel in pictures} == ends  # type: ignore[attr-defined]


def test_logistic_labels_can_be_fitted_at_every_point() -> None:
    assert min(x for line in logistic("quick").lines for x, _ in line.points) >= 3 * 20
