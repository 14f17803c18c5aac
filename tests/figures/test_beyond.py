"""The law's constant and the spectrum: their trials, and eigenvalues drawn inside and outside the bulk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from exhume.data import DataRequest
from exhume.figures import FIGURES, SCALES
from exhume.figures.beyond import Spectra
from exhume.figures.success_rates import SuccessRates
from exhume.figures.trials import PAPER_STEPS, points
from exhume.lab.spectrum import SpectrumJob
from exhume.lab.store import Store
from support.figure_cases import Amount, amount, drawn, keep, level, ratio, titles_are_true, trials_of, upright, words

BOTH = {"gauss-newton", "projection-gd"}


def test_the_transition_is_measured_at_three_quick_shapes() -> None:
    assert amount("transition", "quick") == Amount({(100, 20), (30, 10), (50, 20)}, set(range(10)), BOTH, {3000})
    paper = Amount({(100, 20), (30, 20), (100, 50), (200, 20)}, set(range(20)), BOTH, {PAPER_STEPS})
    assert amount("transition", "paper") == paper


@pytest.mark.parametrize("scale", SCALES)
def test_the_transitions_titles_name_sizes_and_seeds(scale: str) -> None:
    assert titles_are_true("transition", scale)
    for panel in FIGURES["transition"].panels(scale):
        assert isinstance(panel, SuccessRates)
        for label, _, at in panel.lines:
            for x, jobs in at:
                assert f"{len(jobs)} seeds" in panel.title
                assert all(ratio(job.trial) == pytest.approx(x, rel=1e-2) for job in jobs)  # type: ignore[attr-defined]
                assert all(job.trial.knowledge.n is ("n told" in label) for job in jobs)  # type: ignore[attr-defined]
    large = [trial for trial in trials_of("transition", "quick") if trial.data.d == 100]
    assert {trial.seed for trial in large} == set(range(10))  # ten at the first shape, five at the others
    assert {trial.seed for trial in trials_of("transition", "quick") if trial.data.d != 100} == set(range(5))


@pytest.mark.parametrize(
    ("scale", "shapes", "seeds", "last"),
    [("quick", {(100, 20), (50, 20)}, 3, 64), ("paper", {(100, 20), (100, 100), (400, 20)}, 10, 256)],
)
def test_spectra_go_from_far_below_dn_to_far_above(scale: str, shapes: set, seeds: int, last: float) -> None:
    panels = FIGURES["spectrum"].panels(scale)
    seen = set()
    for panel in panels:
        assert isinstance(panel, Spectra)
        xs = [x for x, _ in panel.at]
        assert xs == [2.0**k for k in range(-6, len(xs) - 6)]
        assert xs[-1] == last
        for x, jobs in panel.at:
            assert [job.seed for job in jobs] == [job.data.seed for job in jobs] == list(range(seeds))  # type: ignore[attr-defined]
            assert {job.ratio for job in jobs} == {x}  # type: ignore[attr-defined]
            (shape,) = {(job.data.d, job.data.n) for job in jobs}  # type: ignore[attr-defined]
            seen.add(shape)
            assert panel.title == f"sphere, d = {shape[0]}, n = {shape[1]}"
            assert panel.n == shape[1]
    assert seen == shapes


AT = points(lambda r, seed: SpectrumJob(DataRequest("sphere", n=2, d=4, seed=seed), r, seed=seed), (0.5, 1.0, 4.0), range(2))


def test_eigenvalues_outside_the_bulk_are_drawn_apart_and_counted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for x, values, counts in ((0.5, [0.1, -0.9, 0.5, 1.0], (0, 1)), (4.0, [-3.0, 0.2, -0.1, 1.5], (2, 2))):
        jobs = next(jobs for at, jobs in AT if at == x)
        for job, count in zip(jobs, counts, strict=True):
            keep(store, job, {"outside": count}, {"eigenvalues": torch.tensor(values, dtype=torch.float64)})
    panel = Spectra("a title", 2, AT)
    axes, counts_axes = drawn(panel, store)
    bulk = {(float(x), float(y)) for line in axes.lines if line.get_marker() == "." for x, y in line.get_xydata()}
    out = {(float(x), float(y)) for line in axes.lines if line.get_marker() == "o" for x, y in line.get_xydata()}
    assert bulk == {(0.5, 0.1), (0.5, 0.9), (0.5, 0.5), (0.5, 1.0), (4.0, 0.2), (4.0, 0.1)}
    assert out == {(4.0, 3.0), (4.0, 1.5)}
    assert upright(axes) == upright(counts_axes) == [1.0]
    assert level(axes) == [1.0]
    assert words(axes) == ["p = dn", "edge of the bulk"]
    (bars,) = counts_axes.containers
    np.testing.assert_allclose(bars.lines[0].get_xydata(), [[0.5, 0.5], [4.0, 2.0]])  # what is not finished is left out
    np.testing.assert_allclose(bars.lines[2][0].get_segments()[0][:, 1], [0.0, 1.0])  # one standard deviation
    assert level(counts_axes) == [2.0]
    assert words(counts_axes) == ["n = 2"]
    assert panel.jobs() == [job for _, jobs in AT for job in jobs]


def test_spectra_whose_jobs_have_not_begun_are_empty(tmp_path: Path) -> None:
    axes, counts = drawn(Spectra("later", 2, AT), Store(tmp_path))
    assert axes.get_title() == "later"
    assert not counts.containers
