"""`exhume reproduce` and `exhume lab` as a person meets them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from support.command_line import exhume


def test_list_names_all_figures() -> None:
    listed = json.loads(exhume("reproduce", "list", "--json").stdout)
    named = {f"fig{i}" for i in range(1, 18)} | {"table1", "table2", "transition", "spectrum"}
    assert listed.keys() >= named | {"paper2-width", "paper2-subspace", "paper2-pac"}
    assert "fig12" in exhume("reproduce", "list").stdout


def test_misuse_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    for arguments, words in (
        (["reproduce", "fig33"], "fig3"),
        (["reproduce", "fig1", "--data-dir", str(tmp_path)], "fig1 needs cifar10"),
        (["reproduce", "fig3", "--engine", "slurm"], "dask://HOST:PORT"),
        (["reproduce", "spectrum", "--only-draw"], "nothing to draw"),
        (["reproduce", "spectrum", "--store", "/proc/nowhere"], "cannot write"),
        (["lab", "status"], "no store"),
        (["lab", "export", "rows.txt"], ".parquet"),
    ):
        done = exhume(*arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr


def test_a_paper_figure_is_estimated_before_it_is_run(tmp_path: Path) -> None:
    done = exhume("reproduce", "fig3", "--scale", "paper", "--dry-run", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["seconds"] > 60
    assert not (tmp_path / "exhume-lab").exists()


def test_a_figure_from_nothing_to_rows_and_back(tmp_path: Path) -> None:
    first = exhume("reproduce", "spectrum", "--json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "78/78 done, 0 failed, 0 left" in first.stderr
    assert (tmp_path / "exhume-lab/figures/spectrum-quick.png").stat().st_size > 10_000
    again = exhume("reproduce", "spectrum", cwd=tmp_path)
    assert "78 were in the store" in again.stderr
    status = json.loads(exhume("lab", "status", "--json", cwd=tmp_path).stdout)
    assert (status["finished"], status["failed"], status["figures"]["spectrum quick"]) == (78, [], "78 of 78 jobs")
    found = json.loads(exhume("lab", "rows", "--where", "seed=1", "--json", cwd=tmp_path).stdout)["rows"]
    assert len(found) == 26
    assert {"commit", "machine", "torch", "wall_seconds", "threads", "began"} <= found[0].keys()
    assert found[0]["threads"] == 1
    assert "26 of 26 rows" in exhume("lab", "rows", "--where", "seed=1", cwd=tmp_path).stdout
    assert exhume("lab", "export", "rows.csv", cwd=tmp_path).returncode == 0
    with open(tmp_path / "rows.csv") as file:
        assert len(list(csv.DictReader(file))) == 78
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'exhume[parquet]'")
    assert exhume("lab", "export", "rows.parquet", cwd=tmp_path).returncode == 0
    assert parquet.read_table(tmp_path / "rows.parquet").num_rows == 78
    refused = exhume("lab", "clean", "--where", "seed=1", cwd=tmp_path)
    assert refused.returncode == 2
    assert "26 finished rows" in refused.stderr
    assert "26 rows" in exhume("lab", "clean", "--where", "seed=1", "--yes", cwd=tmp_path).stdout
    assert json.loads(exhume("lab", "status", "--json", cwd=tmp_path).stdout)["finished"] == 52


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    import signal
    import subprocess
    import sys
    import time

    command = [sys.executable, "-m", "exhume", "reproduce", "spectrum"]
    run = subprocess.Popen(
        command,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    jobs = tmp_path / "exhume-lab" / "jobs"
    deadline = time.monotonic() + 60
    while len(list(jobs.glob("[!.]*/record.json"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "goes on" in errors
    finished = len(list(jobs.glob("[!.]*/record.json")))
    assert 5 <= finished < 78
    again = exhume("reproduce", "spectrum", cwd=tmp_path)
    assert f"({finished} were in the store)" in again.stderr
