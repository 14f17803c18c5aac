"""Figures from nothing: what their data need, the grids, the pictures."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from exhume.data import DataRequest, load
from exhume.errors import ExhumeError
from exhume.figures.sheet import Figure, Results, draw
from exhume.lab.engine import Place, engine_from
from exhume.lab.grid import GridProgress, keyed, measured_rate, run_grid
from exhume.lab.job import Job, key_of
from exhume.lab.store import Store
from exhume.storage.atomic import write_atomically


@dataclass(frozen=True)
class Workforce:
    """Who computes: an engine, and how many processes of how many threads; None leaves it to the size of the jobs."""

    engine: str = "local"
    workers: int | None = None
    threads: int | None = None

    def shares(self, *, alone: bool) -> tuple[int, int]:
        """(workers, threads): all cores for one large job, or one core each for many small ones; never more than there are."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        if self.workers is not None:
            return self.workers, self.threads or max(1, cores // self.workers)
        if self.threads is not None:
            return (1 if alone else max(1, cores // self.threads)), self.threads
        return (1, cores) if alone else (cores, 1)


@dataclass(frozen=True)
class Drawn:
    """A figure that was drawn: where it lies, what it cost, what failed."""

    figure: Figure
    path: Path
    jobs: int
    missing: int
    seconds: float  # of all its jobs, whoever computed them and when


def missing_data(figure: Figure, scale: str, data_dir: Path | None) -> str | None:
    """Why a figure's data cannot be had; None where they can."""
    for source in figure.sources(scale):
        try:
            load(DataRequest(source, n=2, data_dir=data_dir))
        except ExhumeError as error:
            return f"{figure.name} needs {source}: {error}"
    return None


def estimate(jobs: list[Job], store: Store, workforce: Workforce) -> float:
    """Seconds that the missing jobs would take here, roughly: their work over the measured rate of a product."""
    work = sum(job.flops() for key, job in keyed(jobs).items() if not store.has(key))
    return work / measured_rate(workforce.shares(alone=True)[1])


def compute(
    figures: list[Figure], scale: str, store: Store, place: Place, workforce: Workforce, watch: Callable[[GridProgress], None]
) -> None:
    """Run all jobs of the figures that are not in the store: many small ones side by side first, then the large ones."""
    large = {key for figure in figures if figure.alone for key in keyed(figure.jobs(scale))}
    jobs = keyed(job for figure in figures for job in figure.jobs(scale))
    before = GridProgress(len(jobs), 0, 0, 0, 0.0, None, "")
    for alone in (False, True):
        part = [job for key, job in jobs.items() if (key in large) is alone]
        workers, threads = workforce.shares(alone=alone)
        engine = engine_from(workforce.engine, workers=workers, threads=threads)

        def whole(now: GridProgress, before: GridProgress = before) -> None:
            watch(now.after(before))

        if part:
            before = run_grid(part, store, engine, place, whole).after(before)


def picture(figure: Figure, scale: str, store: Store, folder: Path) -> Drawn:
    """Draw a figure from the store as FOLDER/NAME-SCALE.png."""
    jobs = figure.jobs(scale)
    finished = [key_of(job) for job in jobs if store.has(key_of(job))]
    if not finished:
        raise ExhumeError(f"{figure.name}: none of its {len(jobs)} jobs is finished, so there is nothing to draw.")
    canvas = draw(figure, scale, Results(store))
    path = folder / f"{figure.name}-{scale}.png"
    write_atomically(path, lambda temporary: canvas.savefig(temporary, format="png", dpi=110))
    return Drawn(figure, path, len(jobs), len(jobs) - len(finished), seconds_of(jobs, store))


def seconds_of(jobs: list[Job], store: Store) -> float:
    """Seconds that the finished ones of these jobs took, each counted once."""
    return sum(store.record(key)["provenance"]["wall_seconds"] for key in keyed(jobs) if store.has(key))
