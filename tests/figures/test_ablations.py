"""Figures 11, 12, 15 and 16: step sizes, a wrong n, ridge and pruning, as titles and departures name them."""

from __future__ import annotations

import pytest

from exhume.data.registry import shape_of
from exhume.figures import FIGURES, SCALES
from exhume.figures.panels import Curves, Pictures
from exhume.figures.trials import PAPER_STEPS
from exhume.lab.job import TrialJob
from support.figure_cases import Amount, amount, ratio, titles_are_true, trials_of

BOTH = {"gauss-newton", "projection-gd"}


@pytest.mark.parametrize(
    ("name", "scale", "expected"),
    [
        ("fig11", "quick", Amount({(192, 10)}, {0, 1}, BOTH, {1000})),
        ("fig11", "paper", Amount({(3072, 20)}, set(range(10)), BOTH, {PAPER_STEPS})),
        ("fig12", "quick", Amount({(192, 10)}, {0}, BOTH, {1000})),
        ("fig12", "paper", Amount({(3072, 50)}, {0}, BOTH, {PAPER_STEPS})),
        ("fig15", "quick", Amount({(30, 20)}, {0, 1}, BOTH, {2000})),
        ("fig15", "paper", Amount({(30, 20), (100, 100)}, set(range(10)), BOTH, {PAPER_STEPS})),
        ("fig16", "quick", Amount({(30, 20)}, {0, 1}, BOTH, {2000})),
        ("fig16", "paper", Amount({(30, 20), (100, 100)}, set(range(10)), BOTH, {PAPER_STEPS})),
    ],
)
def test_both_scales_are_what_is_said_of_them(name: str, scale: str, expected: Amount) -> None:
    assert amount(name, scale) == expected


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["fig11", "fig15", "fig16"])
def test_titles_name_the_size_of_their_trials(name: str, scale: str) -> None:
    assert titles_are_true(name, scale)


@pytest.mark.parametrize(("scale", "base"), [("quick", 100.0), ("paper", 2000.0)])
def test_five_step_sizes_stand_around_the_base(scale: str, base: float) -> None:
    steps = {trial.attack.step_size for trial in trials_of("fig11", scale, "projection-gd")}  # type: ignore[attr-defined]
    assert steps == {base * factor for factor in (0.25, 0.5, 1, 2, 4)}
    assert all(trial.knowledge.n for trial in trials_of("fig11", scale, "projection-gd"))
    panels = FIGURES["fig11"].panels(scale)
    for panel in panels:
        assert isinstance(panel, Curves)
        for line in panel.lines[:5]:
            (used,) = {job.trial.attack.step_size for _, jobs in line.points for job in jobs}  # type: ignore[attr-defined]
            factor = float(line.label.split()[1])
            assert used == pytest.approx(factor * base)
        assert panel.lines[5].label == "gauss-newton (no step size)"
    assert [panel.lines[0].field for panel in panels] == ["rho_direction", "passes", "loss"]  # type: ignore[attr-defined]
    assert [panel.log for panel in panels] == [False, True, True]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("scale", "n"), [("quick", 10), ("paper", 50)])
def test_a_wrong_n_is_a_fifth_too_few_or_too_many(scale: str, n: int) -> None:
    panels = FIGURES["fig12"].panels(scale)
    told = []
    for panel in panels:
        assert isinstance(panel, Pictures)
        assert isinstance(panel.job, TrialJob)
        trial = panel.job.trial
        told.append((trial.attack.name, trial.attack.rows))  # type: ignore[attr-defined]
        assert not trial.knowledge.n  # whoever is told is told a wrong one
        assert ratio(trial) == 10
        assert panel.job.keep
        if panel.every:
            assert panel.title.endswith(f"told {panel.count} rows")
    few, many = round(0.8 * n), round(1.2 * n)
    expected = [("projection-gd", few), ("gauss-newton", few), ("projection-gd", many), ("gauss-newton", many)]
    assert told == [*expected, ("gauss-newton", None)]
    assert [panel.count for panel in panels] == [few, few, many, many, n]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "field", "values"), [("fig15", "ridge", (0.0, 0.1, 10.0)), ("fig16", "prune", (0.0, 0.5, 0.75))])
def test_one_setting_of_the_victim_is_swept_for_both_attacks(name: str, field: str, values: tuple[float, ...]) -> None:
    panels = FIGURES[name].panels("quick")
    assert len(panels) == 2
    for panel, attack in zip(panels, ("gauss-newton", "projection-gd"), strict=True):
        assert isinstance(panel, Curves)
        assert attack in panel.title
        errors = [line for line in panel.lines if line.field == "rho"]
        assert [line.label.partition(" = ")[2] for line in errors] == [f"{value:g}" for value in values]
        for line, value in zip(errors, values, strict=True):
            trials = [job.trial for _, jobs in line.points for job in jobs]  # type: ignore[attr-defined]
            assert {getattr(trial, field) for trial in trials} == {value}
            assert {trial.attack.name for trial in trials} == {attack}


@pytest.mark.parametrize("name", ["fig15", "fig16"])
def test_the_papers_attack_is_drawn_from_dn(name: str) -> None:
    assert min(map(ratio, trials_of(name, "quick", "projection-gd"))) == 1
    assert min(map(ratio, trials_of(name, "quick", "gauss-newton"))) < 0.1


@pytest.mark.parametrize("scale", SCALES)
def test_pruning_leaves_enough_features_to_fit_the_labels(scale: str) -> None:
    """The surgeon refuses to leave fewer than two features per sample."""
    for trial in trials_of("fig16", scale):
        assert trial.p is not None
        if trial.prune:
            assert trial.p - round(trial.prune * trial.p) >= 2 * shape_of(trial.data)[1]
