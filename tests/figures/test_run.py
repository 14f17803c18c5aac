"""Figures from nothing: who computes, what is missing, what it costs, what is drawn."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from exhume.data import DataRequest
from exhume.errors import ExhumeError
from exhume.figures import FIGURES
from exhume.figures.panels import Curves, Line
from exhume.figures.run import Workforce, compute, estimate, missing_data, picture, seconds_of
from exhume.figures.sheet import Figure
from exhume.figures.trials import points
from exhume.lab.engine import Engine, Outcome, Place, perform
from exhume.lab.grid import GridProgress, measured_rate
from exhume.lab.job import Job, key_of
from exhume.lab.spectrum import SpectrumJob
from exhume.lab.store import Store
from support.figure_cases import keep

AT = points(lambda r, seed: SpectrumJob(DataRequest("sphere", n=2, d=6, seed=seed), r, seed=seed), (1.0, 2.0, 4.0), range(2))
JOBS = [job for _, jobs in AT for job in jobs]
SMALL = Figure("small", "a figure", "", lambda scale: [Curves("", (Line("", "largest", AT[:2]),))], departs="")
LARGE = replace(SMALL, name="large", panels=lambda scale: [Curves("", (Line("", "largest", AT[1:]),))], alone=True)
CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("workforce", "alone", "expected"),
    [
        (Workforce(), False, (CORES, 1)),
        (Workforce(), True, (1, CORES)),
        (Workforce(workers=1), False, (1, CORES)),
        (Workforce(workers=64), True, (64, 1)),
        (Workforce(workers=2, threads=3), True, (2, 3)),
        (Workforce(threads=1), False, (CORES, 1)),
        (Workforce(threads=1), True, (1, 1)),
        (Workforce(threads=64), False, (1, 64)),
    ],
)
def test_cores_are_shared_among_small_jobs_and_given_to_large_ones(
    workforce: Workforce, alone: bool, expected: tuple[int, int]
) -> None:
    assert workforce.shares(alone=alone) == expected


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    reason = missing_data(FIGURES["fig1"], "quick", tmp_path)
    assert reason is not None
    assert reason.startswith("fig1 needs cifar10: ")
    assert missing_data(FIGURES["fig3"], "quick", tmp_path) is None  # the sphere needs no files


def test_data_that_are_there_are_enough(cifar10_file: Path) -> None:
    assert missing_data(FIGURES["fig1"], "quick", cifar10_file) is None


def test_the_estimate_is_the_missing_work_over_the_measured_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rate = measured_rate(1)
    monkeypatch.setattr("exhume.figures.run.measured_rate", lambda threads: rate * threads)
    store = Store(tmp_path)
    work = sum(job.flops() for job in JOBS)
    assert estimate([*JOBS, *JOBS], store, Workforce(threads=1)) == pytest.approx(work / rate)  # each counts once
    assert estimate(JOBS, store, Workforce(threads=2)) == pytest.approx(work / rate / 2)
    keep(store, JOBS[0], {})
    assert estimate(JOBS, store, Workforce(threads=1)) == pytest.approx((work - JOBS[0].flops()) / rate)


@dataclass
class Here:
    """Engines that run jobs in this process, and what was asked of them."""

    asked: list[tuple[str, int, int, int]] = field(default_factory=list)

    def engine(self, text: str, *, workers: int, threads: int) -> Engine:
        asked = self.asked

        class One:
            def run(self, jobs: dict[str, Job], place: Place) -> Iterator[Outcome]:
                asked.append((text, workers, threads, len(jobs)))
                for key, job in jobs.items():
                    yield perform(key, job, place)

        return One()


def test_small_jobs_run_side_by_side_and_then_the_large_ones_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, seen, store = Here(), list[GridProgress](), Store(tmp_path)
    monkeypatch.setattr("exhume.figures.run.engine_from", here.engine)
    compute([SMALL, LARGE], "quick", store, Place(), Workforce(), seen.append)
    # The jobs that both figures share are large.
    assert here.asked == [("local", CORES, 1, 2), ("local", 1, CORES, 4)]
    assert store.keys() == sorted(map(key_of, JOBS))
    assert {now.total for now in seen} == {6}
    assert (seen[-1].done, seen[-1].failed, seen[-1].left) == (6, 0, 0)
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    compute([SMALL], "quick", store, Place(), Workforce(), seen.append)
    assert len(here.asked) == 2
    assert (seen[-1].total, seen[-1].kept) == (4, 4)


def test_a_figure_is_drawn_from_what_is_finished(tmp_path: Path) -> None:
    store = Store(tmp_path / "lab")
    with pytest.raises(ExhumeError, match="small: none of its 4 jobs is finished, so there is nothing to draw"):
        picture(SMALL, "quick", store, tmp_path)
    for job, seconds in zip(JOBS[:3], (1.0, 2.0, 4.0), strict=True):
        keep(store, job, {"largest": 1.5}, seconds=seconds)
    done = picture(SMALL, "quick", store, tmp_path / "figures")
    assert done.path == tmp_path / "figures" / "small-quick.png"
    assert (done.figure, done.jobs, done.missing, done.seconds) == (SMALL, 4, 1, 7.0)
    with Image.open(done.path) as image:
        assert image.size == (round(4.8 * 110), round(3.6 * 110))


def test_seconds_count_each_finished_job_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keep(store, JOBS[0], {}, seconds=3.0)
    keep(store, JOBS[1], {}, seconds=0.5)
    jobs: list[Any] = [JOBS[0], JOBS[0], *JOBS]
    assert seconds_of(jobs, store) == 3.5
