"""Figures: their jobs at both scales, and the sheet on which panels stand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from exhume.data import DataRequest
from exhume.figures import FIGURES, SCALES
from exhume.figures.sheet import Figure, Results, draw
from exhume.lab.job import Job
from exhume.lab.spectrum import SpectrumJob
from exhume.lab.store import Store
from support.figure_cases import keep

JOBS = tuple(SpectrumJob(DataRequest("sphere", n=2, d=5, seed=seed), 2.0, seed=seed) for seed in range(3))


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_jobs_at_both_scales(name: str) -> None:
    quick, paper = (FIGURES[name].jobs(scale) for scale in SCALES)
    assert quick
    assert paper
    assert FIGURES[name].departs
    work = [sum(job.flops() for job in jobs) for jobs in (quick, paper)]
    assert 0 < work[0] < work[1]


def test_figures_stand_in_the_order_of_their_numbers() -> None:
    names = list(FIGURES)
    assert names[:17] == [f"fig{i}" for i in range(1, 18)]
    assert set(names[17:]) == {
        "table1",
        "table2",
        "transition",
        "spectrum",
        "paper2-width",
        "paper2-subspace",
        "paper2-pac",
        "all-weights",
        "ordinary",
    }
    assert all(figure.name == name and figure.title and figure.claim for name, figure in FIGURES.items())


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_names_the_files_that_its_data_need(name: str) -> None:
    figure = FIGURES[name]
    for scale in SCALES:
        sources = {job.settings()["data"]["source"].removesuffix("-multi") for job in figure.jobs(scale)}
        assert sources - {"sphere", "digits"} == set(figure.sources(scale))


@dataclass
class Sketch:
    """A panel that remembers where it was drawn."""

    width: float
    jobs_of: tuple[Job, ...] = ()
    height: float = 2.0
    canvas: Any = None

    def jobs(self) -> list[Job]:
        return list(self.jobs_of)

    def draw(self, canvas: Any, results: Results) -> None:
        self.canvas = canvas
        canvas.add_subplot()


def figure_of(*panels: Sketch, title: str = "a title") -> Figure:
    return Figure("sketch", title, "", lambda scale: list(panels))


def test_a_job_of_several_panels_counts_once() -> None:
    figure = figure_of(Sketch(3, JOBS[:2]), Sketch(3, JOBS[1:]))
    assert figure.jobs("quick") == list(JOBS)


def test_panels_stand_side_by_side_until_a_line_is_full(tmp_path: Path) -> None:
    panels = [Sketch(6), Sketch(6, height=3.0), Sketch(6), Sketch(14)]
    canvas = draw(figure_of(*panels), "quick", Results(Store(tmp_path)))
    assert tuple(canvas.get_size_inches()) == (14.0, 3.0 + 2.0 + 2.0 + 0.5)
    assert len(canvas.axes) == 4
    parents = [id(panel.canvas._parent) for panel in panels]
    assert parents[0] == parents[1]  # 6 + 6 inches fit, 18 do not
    assert len({parents[0], parents[2], parents[3]}) == 3


def test_a_long_title_is_broken_to_the_width(tmp_path: Path) -> None:
    canvas = draw(figure_of(Sketch(4), title="word " * 30), "quick", Results(Store(tmp_path)))
    lines = canvas.get_suptitle().splitlines()
    assert lines[0].startswith("sketch: word")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 44


def test_results_are_the_rows_of_finished_jobs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keep(store, JOBS[0], {"x": 1}, {"t": torch.ones(2)})
    keep(store, JOBS[2], {"x": 3})
    results = Results(store)
    assert results.row(JOBS[0]) == {"x": 1}
    assert results.row(JOBS[1]) is None
    assert results.rows(JOBS) == [{"x": 1}, {"x": 3}]
    assert torch.equal(results.tensors(JOBS[0])["t"], torch.ones(2))
    assert results.tensors(JOBS[1]) == results.tensors(JOBS[2]) == {}
