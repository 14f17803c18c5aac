"""Where jobs run: processes of this machine, or a cluster that is already up. An engine only computes; nobody but the driver
writes to the store."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy
import torch

from exhume.attacks import Progress, Resources
from exhume.errors import ExhumeError
from exhume.lab.job import Job
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.version import __version__

# A process that dies takes its job down; the job gets one more chance, alone.
_CHANCES = 2
_REPORT_EVERY = 1.0  # seconds


@dataclass(frozen=True)
class Place:
    """What jobs find on the machine where they run."""

    data_dir: Path | None = None
    memory: int = DEFAULT_BUDGET  # bytes, per job
    device: str = "cpu"
    running: Path | None = None  # folder for progress and checkpoints, where driver and workers share one


@dataclass(frozen=True)
class Outcome:
    """A job that has ended: its record and tensors, or the reason of its failure."""

    key: str
    record: dict[str, Any]
    tensors: dict[str, torch.Tensor]
    error: str | None = None


class Engine(Protocol):
    """Runs jobs and yields each as it ends, in any order."""

    def run(self, jobs: dict[str, Job], place: Place) -> Iterator[Outcome]:
        """Outcomes of all jobs."""
        ...


def perform(key: str, job: Job, place: Place) -> Outcome:
    """Run one job here; every failure becomes an outcome."""
    began, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    resources = Resources(place.device, place.memory, None if place.running is None else place.running / f"{key}.safetensors")
    error, row, tensors = None, {}, {}
    try:
        done = job.run(data_dir=place.data_dir, watch=_reporter(key, place), resources=resources)
        row, tensors = done.row, done.tensors
    except ExhumeError as problem:
        error = str(problem)
    except Exception as problem:  # a defect must not stop the rest of the grid
        where = traceback.extract_tb(problem.__traceback__)[-1]
        error = f"{type(problem).__name__}: {problem} ({Path(where.filename).name}:{where.lineno})"
    provenance = versions() | {"began": began, "wall_seconds": time.perf_counter() - clock, "threads": torch.get_num_threads()}
    record = {"kind": job.kind, "settings": job.settings(), "row": row, "provenance": provenance}
    return Outcome(key, record if error is None else record | {"error": error}, tensors, error)


def versions() -> dict[str, Any]:
    """What the row was computed with and where."""
    return {
        "exhume": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "machine": f"{platform.node()}, {platform.machine()}, {os.cpu_count()} cores",
    }


def _commit() -> str | None:
    """The commit of a source checkout, with + where it was changed since."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"],
            cwd=here, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip()


def _reporter(key: str, place: Place) -> Any:
    last = 0.0

    def report(now: Progress) -> None:
        nonlocal last
        if place.running is None or time.monotonic() - last < _REPORT_EVERY:
            return
        last = time.monotonic()
        values = {"stage": now.stage, "step": now.step, "loss": now.loss, "rows": now.rows, "seconds": now.seconds}
        temporary = place.running / f"{key}.progress.{os.getpid()}"
        temporary.write_text(json.dumps(values))
        os.replace(temporary, place.running / f"{key}.progress")

    return report


@dataclass(frozen=True)
class LocalEngine:
    """Processes of this machine: `workers` of them with `threads` each."""

    workers: int
    threads: int

    def run(self, jobs: dict[str, Job], place: Place) -> Iterator[Outcome]:
        """Outcomes of all jobs. A process that dies takes the others' jobs with it: they are tried again one at a time, and a job
        whose process dies twice while it is alone has failed."""
        waiting: list[str] = list(jobs)
        suspects: list[str] = []
        chances = dict.fromkeys(jobs, _CHANCES)
        pool = self._pool()
        try:
            flying: dict[concurrent.futures.Future[Outcome], str] = {}
            while waiting or suspects or flying:
                alone = bool(suspects) and not waiting and not flying
                queue = suspects if alone else waiting
                try:
                    while queue and len(flying) < (1 if alone else self.workers):
                        flying[pool.submit(perform, queue[0], jobs[queue[0]], place)] = queue[0]
                        queue.pop(0)
                except BrokenProcessPool:  # a process died since the last look; what was flying ends below
                    if not flying:
                        pool.shutdown(wait=False, cancel_futures=True)
                        pool = self._pool()
                        continue
                ended, _ = concurrent.futures.wait(flying, return_when=concurrent.futures.FIRST_COMPLETED)
                broken = False
                for future in ended:
                    key = flying.pop(future)
                    try:
                        yield future.result()
                    except BrokenProcessPool:
                        broken = True
                        chances[key] -= int(alone)  # in company nobody knows whose process it was
                        if chances[key] > 0:
                            suspects.append(key)
                        else:
                            reason = "its process died twice (killed, or out of memory). Lower --memory or --jobs."
                            yield Outcome(key, {"settings": jobs[key].settings(), "error": reason}, {}, reason)
                if broken:
                    suspects += [key for key in flying.values() if key not in suspects]
                    flying.clear()
                    pool.shutdown(wait=False, cancel_futures=True)
                    pool = self._pool()
        finally:
            _end(pool)

    def _pool(self) -> concurrent.futures.ProcessPoolExecutor:
        # A forked process would hang in OpenMP, which torch has used by now.
        context = multiprocessing.get_context("spawn")
        return concurrent.futures.ProcessPoolExecutor(
            self.workers, context, initializer=_prepare, initargs=(self.threads, os.getpid())
        )


def _prepare(threads: int, driver: int) -> None:
    torch.set_num_threads(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver

    def follow() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)  # the driver was killed: whoever resumes needs the cores

    threading.Thread(target=follow, daemon=True).start()


def _end(pool: concurrent.futures.ProcessPoolExecutor) -> None:
    """Stop at once: what is running is lost, which is all that an interruption costs."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(5)


@dataclass(frozen=True)
class DaskEngine:
    """A dask.distributed cluster that is already up; a job whose worker dies runs on another."""

    address: str
    threads: int = 1

    def run(self, jobs: dict[str, Job], place: Place) -> Iterator[Outcome]:
        """Outcomes of all jobs as the cluster ends them."""
        try:
            from dask.distributed import Client, as_completed
        except ImportError:
            raise ExhumeError("--engine dask needs dask.distributed. Install it with: pip install 'exhume[cluster]'") from None
        try:
            client = Client(self.address, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise ExhumeError(f"no dask scheduler answers at {self.address} ({error}). Start it, or check the address.") from None
        with client:
            futures = {
                client.submit(_perform_remotely, key, job, place, self.threads, key=f"exhume-{key}", pure=False, retries=1): key
                for key, job in jobs.items()
            }
            for future in as_completed(futures):
                key = futures[future]
                try:
                    yield future.result()
                except Exception as error:  # the cluster gave up on it: the reason is for the person, the rest goes on
                    reason = f"the cluster lost it: {type(error).__name__}: {str(error).splitlines()[0]}"
                    yield Outcome(key, {"settings": jobs[key].settings(), "error": reason}, {}, reason)


def _perform_remotely(key: str, job: Job, place: Place, threads: int) -> Outcome:
    torch.set_num_threads(threads)
    return perform(key, job, place)


def engine_from(text: str, *, workers: int, threads: int) -> Engine:
    """`local`, or the address of a dask scheduler such as `dask://host:8786`."""
    if text == "local":
        return LocalEngine(workers, threads)
    scheme, found, address = text.partition("://")
    if scheme == "dask" and found and address:
        return DaskEngine(f"tcp://{address}", threads)
    raise ExhumeError(f"--engine must be local or dask://HOST:PORT, got {text!r}.")
