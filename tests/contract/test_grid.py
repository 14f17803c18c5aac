"""Grids survive what happens to long runs: killed drivers, killed workers, failing jobs. Real processes throughout."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from exhume.attacks import Resources, Watch
from exhume.errors import ExhumeError
from exhume.lab.engine import LocalEngine, Place
from exhume.lab.grid import GridProgress, run_grid
from exhume.lab.job import Done
from exhume.lab.store import Store

# Twelve small trials: enough that a kill can hit any of them, or the gaps.
DRIVER = """
import sys
from pathlib import Path
from exhume.data import DataRequest
from exhume.lab.engine import LocalEngine, Place
from exhume.lab.grid import run_grid
from exhume.lab.job import TrialJob
from exhume.lab.store import Store
from exhume.lab.trial import Trial
if __name__ == "__main__":
    data = {s: DataRequest("sphere", n=6, d=30, seed=s) for s in range(4)}
    jobs = [TrialJob(Trial(data[s], ratio=r, seed=s), keep=True) for s in range(4) for r in (3, 4, 5)]
    run_grid(jobs, Store(Path(sys.argv[1])), LocalEngine(2, 1), Place())
"""
# What a run cost differs by its nature: a resumed one pays for its last state twice.
COSTS = {"seconds", "peak_rss_mb", "passes"}


def start(script: Path, store: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(script), str(store)], start_new_session=True)


def rows(store: Path) -> dict[str, dict[str, Any]]:
    records = Store(store).records()
    return {one["key"]: {k: v for k, v in one["row"].items() if k not in COSTS} for one in records}


def orphans() -> list[int]:
    """Workers that outlived their driver."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, parent = (folder / "cmdline").read_bytes(), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if b"spawn_main" in words and parent == 1:
            found.append(int(folder.name))
    return found


def test_killed_twenty_times_and_resumed_the_rows_are_those_of_an_undisturbed_run(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    assert start(script, tmp_path / "calm").wait(300) == 0
    expected = rows(tmp_path / "calm")
    assert len(expected) == 12
    before = set(orphans())  # of others
    moments, began, finished = random.Random(0), {}, 0
    for _ in range(20):
        driver = start(script, tmp_path / "stormy")
        time.sleep(moments.uniform(0.5, 7.0))
        driver.kill()  # SIGKILL: nobody can tidy up
        driver.wait()
        store = Store(tmp_path / "stormy")
        now = {one["key"]: one["provenance"]["began"] for one in store.records()}
        assert began.items() <= now.items()  # nothing lost, nothing computed twice
        began, finished = now, finished + (len(now) == 12)
    assert start(script, tmp_path / "stormy").wait(300) == 0
    again = rows(tmp_path / "stormy")
    assert again.keys() == expected.keys()
    for key, row in expected.items():
        rounded = {k: pytest.approx(v, rel=1e-6, abs=1e-9) if isinstance(v, float) else v for k, v in row.items()}
        assert again[key] == rounded
    time.sleep(5)  # workers notice the death of their driver
    assert set(orphans()) <= before
    for key in expected:
        assert Store(tmp_path / "stormy").tensors(key).keys() == {"found"}


@dataclass(frozen=True)
class Troubled:
    """A job that kills its process, fails, or succeeds; a killed one succeeds on its next chance if `heals`."""

    kind: ClassVar[str] = "troubled"
    mode: str
    folder: Path
    heals: bool = True

    def settings(self) -> dict[str, Any]:
        return {"mode": self.mode, "heals": self.heals}

    def flops(self) -> float:
        return 1.0

    def run(self, *, data_dir: Path | None, watch: Watch, resources: Resources) -> Done:
        with open(self.folder / f"{self.mode}-{self.heals}", "a") as file:
            file.write("x")
        tries = (self.folder / f"{self.mode}-{self.heals}").stat().st_size
        if self.mode == "killed" and not (self.heals and tries > 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mode == "misused":
            raise ExhumeError("expected a, got b.")
        if self.mode == "defect":
            raise ValueError("boom")
        return Done({"status": self.mode, "tries": tries}, {})


def test_failures_are_told_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    jobs = [Troubled(mode, made) for mode in ("fine", "killed", "misused", "defect")] + [Troubled("killed", made, heals=False)]
    seen: list[GridProgress] = []
    store = Store(tmp_path / "lab")
    end = run_grid(jobs, store, LocalEngine(2, 1), Place(), seen.append)
    assert (end.done, end.failed, end.left) == (2, 3, 0)
    assert {row["row"]["status"] for row in store.records()} == {"fine", "killed"}
    reasons = " | ".join(one["error"] for one in store.failures())
    for part in ("expected a, got b.", "ValueError: boom", "died twice"):
        assert part in reasons
    assert [now.done + now.failed for now in seen] == list(range(6))
    again = run_grid(jobs, store, LocalEngine(2, 1), Place())  # failures are tried anew, finished jobs are not
    assert (again.kept, again.failed) == (2, 3)
    assert (made / "fine-True").stat().st_size == 1


def test_a_process_that_died_between_two_jobs_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool may break while the driver is not looking: the next job is then refused, and must go to a fresh pool."""
    engine, fresh = LocalEngine(2, 1), LocalEngine._pool
    broken = fresh(engine)
    with pytest.raises(BrokenProcessPool):
        broken.submit(os._exit, 1).result()
    pools = iter([broken])
    monkeypatch.setattr(LocalEngine, "_pool", lambda self: next(pools, None) or fresh(self))
    jobs: dict[str, Any] = {"a": Troubled("fine", tmp_path), "b": Troubled("misused", tmp_path)}
    ended = {one.key: one.error for one in engine.run(jobs, Place())}
    assert ended == {"a": None, "b": "expected a, got b."}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster() -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A dask scheduler with two workers on loopback, as a user's cluster would have them."""
    port = free_port()
    base = [sys.executable, "-m"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    flags = ["--no-dashboard"]
    scheduler = [*base, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), *flags]
    worker = [*base, "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", *flags]
    processes = [subprocess.Popen(scheduler, **quiet)]
    processes += [subprocess.Popen(worker, **quiet) for _ in range(2)]
    try:
        yield f"dask://127.0.0.1:{port}", processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_cluster_that_loses_a_worker_delivers_all_rows(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, workers = cluster
    store = Store(tmp_path / "lab")
    command = [sys.executable, "-m", "exhume", "reproduce", "spectrum", "--store", str(store.root), "--engine", address, "--json"]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(store.keys()) < 10 and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    before = len(store.keys())
    workers[0].kill()
    out, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors
    assert 10 <= before < 78  # it was under way
    result = json.loads(out)
    assert (result["figures"][0]["jobs"], result["figures"][0]["missing"]) == (78, 0)
    assert len(store.keys()) == 78
    assert Path(result["figures"][0]["path"]).stat().st_size > 10_000
    commits = {one["provenance"]["exhume"] for one in store.records()}
    assert len(commits) == 1
