"""A grid in this process: what is kept, what is run, what is told. Killed drivers and workers: contract/test_grid.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from exhume.attacks import Resources, Watch
from exhume.errors import ExhumeError
from exhume.lab.engine import Outcome, Place, perform
from exhume.lab.grid import GridProgress, describe, keyed, measured_rate, run_grid, running
from exhume.lab.job import Done, Job, key_of
from exhume.lab.store import Store


@dataclass(frozen=True)
class Part:
    """A job of known size."""

    kind: ClassVar[str] = "part"
    size: float
    fails: bool = False

    def settings(self) -> dict[str, Any]:
        return {"size": self.size, "attack": {"name": "x", "rows": 3}, "fails": self.fails}

    def flops(self) -> float:
        return self.size

    def run(self, *, data_dir: Path | None, watch: Watch, resources: Resources) -> Done:
        if self.fails:
            raise ExhumeError("it was to fail.")
        return Done({"size": self.size}, {})


@dataclass(frozen=True)
class Here:
    """An engine that runs jobs in this process, one after another."""

    order: list[float]
    places: list[Place]

    def run(self, jobs: dict[str, Job], place: Place) -> Iterator[Outcome]:
        self.places.append(place)
        for key, job in jobs.items():
            self.order.append(job.flops())
            yield perform(key, job, place)


@pytest.fixture
def here() -> Here:
    return Here([], [])


def test_small_jobs_come_first_and_equal_ones_once() -> None:
    jobs = [Part(3.0), Part(1.0), Part(2.0), Part(1.0)]
    assert [job.flops() for job in keyed(jobs).values()] == [1.0, 2.0, 3.0]
    assert list(keyed(jobs)) == [key_of(Part(size)) for size in (1.0, 2.0, 3.0)]


def test_what_is_in_the_store_is_not_computed_again(tmp_path: Path, here: Here) -> None:
    store = Store(tmp_path)
    first = run_grid([Part(2.0), Part(1.0)], store, here, Place())
    assert (first.total, first.kept, first.done, first.left) == (2, 0, 2, 0)
    again = run_grid([Part(1.0), Part(4.0), Part(2.0)], store, here, Place())
    assert (again.total, again.kept, again.done) == (3, 2, 1)
    assert here.order == [1.0, 2.0, 4.0]
    assert sorted(one["row"]["size"] for one in store.records()) == [1.0, 2.0, 4.0]
    assert run_grid([Part(1.0)], store, here, Place()).kept == 1
    assert len(here.places) == 2  # nothing is missing: no engine is started
    assert here.places[0].running == store.running


def test_a_failure_is_kept_with_its_reason_and_tried_anew(tmp_path: Path, here: Here) -> None:
    store, seen = Store(tmp_path), list[GridProgress]()
    end = run_grid([Part(1.0, fails=True), Part(3.0)], store, here, Place(), seen.append)
    assert (end.done, end.failed, end.left) == (1, 1, 0)
    assert [one["error"] for one in store.failures()] == ["it was to fail."]
    assert [(now.done, now.failed, now.error) for now in seen] == [
        (0, 0, None),
        (0, 1, "it was to fail."),
        (1, 1, None),
    ]
    assert run_grid([Part(1.0, fails=True)], store, here, Place()).failed == 1


def test_the_time_left_is_told_by_work(tmp_path: Path, here: Here) -> None:
    seen = list[GridProgress]()
    run_grid([Part(1.0), Part(3.0), Part(4.0)], Store(tmp_path), here, Place(), seen.append)
    assert seen[0].eta is None
    for now, left in zip(seen[1:], (7 / 1, 4 / 4, 0.0), strict=True):
        assert now.eta == pytest.approx(now.seconds * left)


def test_every_row_is_stored_before_the_next_job_is_looked_at(tmp_path: Path) -> None:
    store = Store(tmp_path)
    counts = []

    class Counting:
        def run(self, jobs: dict[str, Job], place: Place) -> Iterator[Outcome]:
            for key, job in jobs.items():
                counts.append(len(store.keys()))
                yield perform(key, job, place)

    run_grid([Part(1.0), Part(2.0), Part(3.0)], store, Counting(), Place())
    assert counts == [0, 1, 2]


def test_two_grids_add_up_to_a_whole() -> None:
    before = GridProgress(10, 1, 2, 1, 5.0, None, "")
    after = GridProgress(4, 1, 1, 1, 2.0, 9.0, "x", "why").after(before)
    assert after == GridProgress(10, 2, 3, 2, 7.0, 9.0, "x", "why")
    assert after.left == 3


def test_a_job_is_told_in_a_few_words() -> None:
    assert describe(Part(2.0)) == "attack x 3, fails False, size 2"


def test_running_jobs_are_listed_and_broken_notes_passed_over(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.running.mkdir()
    (store.running / "abc.progress").write_text('{"step": 3}')
    (store.running / "def.progress").write_text("{")
    (store.running / "abc.safetensors").write_text("")
    assert running(store) == [{"key": "abc", "step": 3}]


def test_the_rate_of_products_is_plausible_and_leaves_the_threads_alone() -> None:
    before = torch.get_num_threads()
    assert 1e7 < measured_rate(1) < 1e14
    assert torch.get_num_threads() == before
