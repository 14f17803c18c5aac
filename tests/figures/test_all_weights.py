"""The law for all weights and what ordinary training leaves: which trials the figures are made of."""

from __future__ import annotations

import pytest

from exhume.figures import FIGURES, SCALES
from exhume.figures.panels import Pictures
from exhume.figures.success_rates import SuccessRates


@pytest.mark.parametrize("scale", SCALES)
def test_every_point_has_the_hidden_units_per_sample_that_it_stands_at(scale: str) -> None:
    for panel in FIGURES["all-weights"].panels(scale):
        assert isinstance(panel, SuccessRates)
        for name, _, at in panel.lines:
            for x, jobs in at:
                for job in jobs:
                    trial = job.trial  # type: ignore[attr-defined]
                    assert trial.widths[0] / trial.data.n == pytest.approx(x, rel=0.05)
                    assert trial.attack.name == name
                    assert not trial.knowledge.n
                    assert f"n = {trial.data.n}," in panel.title


def test_the_paper_scale_reaches_a_hundred_samples() -> None:
    samples = {job.trial.data.n for panel in FIGURES["all-weights"].panels("paper") for job in panel.jobs()}  # type: ignore[attr-defined]
    assert samples == {10, 20, 50, 100}


@pytest.mark.parametrize("scale", SCALES)
def test_ordinary_pictures_differ_by_what_their_titles_name(scale: str) -> None:
    panels = FIGURES["ordinary"].panels(scale)
    trials = {panel.title: panel.job.trial for panel in panels if isinstance(panel, Pictures)}  # type: ignore[attr-defined]
    assert len(trials) == len(panels) == 8
    assert all(trial.dtype == "float32" and trial.bias and trial.loss == "cross-entropy" for trial in trials.values())
    assert trials["weight decay 1e-3"].weight_decay == 1e-3
    assert trials["L-BFGS"].optimizer == "lbfgs"
    assert trials["plain SGD, single samples"].batch == 1
    assert len(trials["three hidden layers"].widths) == 3
    assert trials["Adam without its state"].knowledge.optimizer is False
