"""The two result tables, read from rows made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhume.figures import FIGURES, SCALES
from exhume.figures.panels import Table
from exhume.figures.sheet import Results
from exhume.lab.job import TrialJob, key_of
from exhume.lab.store import Store
from support.figure_cases import keep, ratio


def table(name: str, scale: str = "quick") -> Table:
    (panel,) = FIGURES[name].panels(scale)
    assert isinstance(panel, Table)
    return panel


def cells(panel: Table, store: Store) -> dict[tuple[str, ...], list[str]]:
    """Cells by the name of their line and, where several lines share it, the attack."""
    return {(name, made[0]): made for name, make in panel.lines for made in [make(Results(store))]}


@pytest.mark.parametrize(("scale", "n"), [("quick", 10), ("paper", 100)])
def test_the_regimes_are_at_n_dn_and_ten_dn(scale: str, n: int) -> None:
    panel = table("table1", scale)
    sizes = {job.trial.p for job in panel.jobs()}  # type: ignore[attr-defined]
    assert sizes == {n, 3072 * n, 10 * 3072 * n}
    assert [name for name, _ in panel.lines] == ["p = n", "p = dn", "p = 10 dn"]
    assert {job.trial.attack.name for job in panel.jobs()} == {"gauss-newton"}  # type: ignore[attr-defined]
    shared = {key_of(job) for job in FIGURES["fig1"].jobs(scale)}
    assert {key_of(job) for job in panel.jobs()} <= shared  # "as fig1": no trial is run for the table alone


def test_a_regime_is_the_mean_of_its_seeds(tmp_path: Path) -> None:
    panel, store = table("table1", "paper"), Store(tmp_path)
    at = [job for job in panel.jobs() if job.trial.p == 3072 * 100]  # type: ignore[attr-defined]
    for i, job in enumerate(at[:2]):
        keep(store, job, {"train_loss": 1e-3 * (1 + i), "rho_direction": 0.2 + i / 10, "chance": 1.4, "status": "stalled"})
    made = {name: make(Results(store)) for name, make in panel.lines}
    assert made["p = dn"] == ["1.5e-03", "0.25", "1.4", "stalled"]
    assert made["p = n"] == ["not finished"] * 4


def test_the_configurations_are_those_of_the_figures() -> None:
    panel = table("table2")
    names = [name for name, _ in panel.lines]
    assert set(names) == {
        "random features, sphere",
        "random features, logistic loss",
        "two-layer, square loss",
        "two-layer, cross-entropy",
        "ResNet, square loss",
    }
    others = {key_of(job) for name in ("fig3", "fig6", "fig8") for job in FIGURES[name].jobs("quick")}
    assert {key_of(job) for job in panel.jobs()} <= others


def test_a_threshold_is_the_first_size_from_which_the_error_stays_low(tmp_path: Path) -> None:
    panel, store = table("table2"), Store(tmp_path)
    mine = [
        job.trial
        for job in panel.jobs()
        if isinstance(job, TrialJob) and job.trial.data.source == "sphere" and job.trial.loss == "square"
    ]
    ours, theirs = ([t for t in mine if t.attack.name == name and t.seed == 0] for name in ("gauss-newton", "projection-gd"))
    for trial in ours:  # low at 0.1 dn by luck, high at 1 dn, low from 1.5 dn on
        error = 0.2 if ratio(trial) == pytest.approx(0.1) else 0.9 if ratio(trial) <= 1 else 0.05
        keep(store, TrialJob(trial), {"rho": error})
    for trial in theirs:
        keep(store, TrialJob(trial), {"rho": 0.8})
    made = cells(panel, store)
    name = "random features, sphere"
    assert made[name, "gauss-newton (ours)"][1:] == ["1.5 dn", "0.05"]
    assert made[name, "projection-gd (paper)"][1:] == ["above 10 dn", "0.8"]
    assert made["ResNet, square loss", "gauss-newton"][1:] == ["not finished", ""]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["table1", "table2"])
def test_a_header_has_a_cell_for_every_column(name: str, scale: str, tmp_path: Path) -> None:
    panel = table(name, scale)
    assert all(len(make(Results(Store(tmp_path)))) == len(panel.header) - 1 for _, make in panel.lines)
