"""A grid of jobs, run until all are in the store: what is there is not computed again, a failure does not stop the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from exhume.lab.engine import Engine, Place
from exhume.lab.job import Job, key_of
from exhume.lab.store import Store


@dataclass(frozen=True)
class GridProgress:
    """How far a grid is."""

    total: int
    kept: int  # were in the store before
    done: int
    failed: int
    seconds: float
    eta: float | None  # seconds left at the pace so far, by work rather than by count
    last: str  # the job that has just ended, in words
    error: str | None = None  # why it failed

    @property
    def left(self) -> int:
        """Jobs still to run."""
        return self.total - self.kept - self.done - self.failed

    def after(self, before: GridProgress) -> GridProgress:
        """This grid's progress as the second part of a whole whose size `before` names."""
        return replace(
            self,
            total=before.total,
            kept=before.kept + self.kept,
            done=before.done + self.done,
            failed=before.failed + self.failed,
            seconds=before.seconds + self.seconds,
        )


GridWatch = Callable[[GridProgress], None]


def keyed(jobs: Iterable[Job]) -> dict[str, Job]:
    """Jobs by key, each once, small ones first: a person sees results early and the estimate settles."""
    return {key_of(job): job for job in sorted(jobs, key=lambda job: job.flops())}


def run_grid(jobs: Iterable[Job], store: Store, engine: Engine, place: Place, watch: GridWatch = lambda _: None) -> GridProgress:
    """Run what is missing; every job that ends is in the store before the next one is looked at."""
    wanted = keyed(jobs)
    with store.locked():
        missing = {key: job for key, job in wanted.items() if not store.has(key)}
        now = GridProgress(len(wanted), len(wanted) - len(missing), 0, 0, 0.0, None, "")
        watch(now)
        work = {key: job.flops() for key, job in missing.items()}
        total, finished, clock = sum(work.values()), 0.0, time.perf_counter()
        if not missing:
            return now
        for outcome in engine.run(missing, replace(place, running=store.running)):
            if outcome.error is None:
                store.put(outcome.key, outcome.record, outcome.tensors)
            else:
                store.fail(outcome.key, outcome.record)
            finished += work[outcome.key]
            seconds = time.perf_counter() - clock
            eta = seconds * (total - finished) / finished if finished else None
            failed = outcome.error is not None
            now = replace(
                now,
                done=now.done + (not failed),
                failed=now.failed + failed,
                seconds=seconds,
                eta=eta,
                last=describe(missing[outcome.key]),
                error=outcome.error,
            )
            watch(now)
    return now


def describe(job: Job) -> str:
    """A job in a few words: what differs from the defaults."""
    return ", ".join(f"{name} {_brief(value)}" for name, value in sorted(job.settings().items()))


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(str(v) for _, v in sorted(value.items()))
    return f"{value:g}" if isinstance(value, float) else str(value)


def running(store: Store) -> list[dict[str, Any]]:
    """Progress of the jobs under way."""
    found = []
    for path in sorted(store.running.glob("*.progress")):
        try:
            found.append({"key": path.name.partition(".")[0]} | json.loads(path.read_text()))
        except (OSError, ValueError):
            continue  # it has just ended
    return found


def measured_rate(threads: int) -> float:
    """Flops per second of a skinny float32 product on this machine, in a third of a second."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    V, X = torch.randn(4096, 1024), torch.randn(1024, 16)
    V @ X
    count, clock = 0, time.perf_counter()
    while time.perf_counter() - clock < 0.3:
        V @ X
        count += 1
    rate = count * 2 * V.numel() * X.shape[1] / (time.perf_counter() - clock)
    torch.set_num_threads(before)
    return rate
