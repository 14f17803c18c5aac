"""`exhume lab` on a store made by hand: status, rows, export, clean."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from exhume.data import DataRequest
from exhume.figures import FIGURES
from exhume.figures.trials import ours, sphere
from exhume.lab.job import key_of
from exhume.lab.spectrum import SpectrumJob
from exhume.lab.store import Store
from support.command_line import exhume


def row(**changes: Any) -> dict[str, Any]:
    plain = {"attack": "gauss-newton", "victim": "rf", "data": "sphere", "d": 10, "n_true": 4, "ratio": 2.0, "seed": 0}
    return plain | {"rho": 0.125, "status": "stalled", "notes": ["one", "two"]} | changes


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three trials and a spectrum, one failure and what a killed run leaves."""
    made = Store(tmp_path / "exhume-lab")
    for seed in range(3):
        job = ours(sphere(10, 4, seed), 80, seed)
        provenance = {"began": f"2026-01-0{seed + 1}", "wall_seconds": 1.0, "machine": "here"}
        made.put(key_of(job), {"kind": "trial", "settings": job.settings(), "row": row(seed=seed), "provenance": provenance}, {})
    spectrum = SpectrumJob(DataRequest("sphere", n=4, d=10), 2.0)
    values = {"d": 10, "n_true": 4, "ratio": 2.0, "seed": 0, "outside": 3, "status": "done"}
    provenance = {"began": "2025-12-31", "wall_seconds": 1.0, "machine": "there"}
    record = {"kind": "spectrum", "settings": spectrum.settings(), "row": values, "provenance": provenance}
    made.put(key_of(spectrum), record, {})
    made.fail("f" * 20, {"settings": {}, "error": "out of memory"})
    (made.root / "jobs" / ".half").mkdir()
    made.running.mkdir()
    (made.running / "abc.progress").write_text('{"step": 3}')
    return made


def lab(store: Store, *arguments: str) -> Any:
    return exhume("lab", *arguments, cwd=store.root.parent)


def test_the_status_counts_what_is_there_and_the_figures_that_it_makes_up(store: Store) -> None:
    jobs = FIGURES["spectrum"].jobs("quick")
    for job in jobs[:5]:
        store.put(key_of(job), {"kind": job.kind, "settings": job.settings(), "row": row(), "provenance": {"began": ""}}, {})
    told = json.loads(lab(store, "status", "--json").stdout)
    assert told["finished"] == 4 + 5
    assert told["running"] == [{"key": "abc", "step": 3}]
    assert told["failed"] == [{"key": "f" * 20, "settings": {}, "error": "out of memory"}]
    assert told["figures"]["spectrum quick"] == f"5 of {len(jobs)} jobs"
    assert all(name.startswith("spectrum") for name in told["figures"])


def test_a_person_reads_why_a_job_failed(store: Store) -> None:
    shown = lab(store, "status").stdout
    assert "failed ffffffff  out of memory" in shown
    assert " ".join(shown.split()).startswith("exhume-lab finished 4 running 1 failed 1")


def test_rows_are_listed_newest_first(store: Store) -> None:
    lines = lab(store, "rows").stdout.splitlines()
    assert lines[0] == "4 of 4 rows"
    assert [" seed 2" in lines[1], " seed 1" in lines[2], " seed 0" in lines[3]] == [True] * 3
    assert "rho 1.25e-01  stalled" in lines[1]
    assert "3 outside the bulk" in lines[4]
    assert lab(store, "rows", "--limit", "2").stdout.splitlines()[0] == "2 of 4 rows"
    assert lab(store, "rows", "--limit", "0").stdout.splitlines()[0] == "4 of 4 rows"


@pytest.mark.parametrize(
    ("where", "count"),
    [(["seed=1"], 1), (["machine=here"], 3), (["machine=here", "seed=2"], 1), (["kind=spectrum"], 1), (["seed=7"], 0)],
)
def test_rows_are_chosen_by_their_fields(where: list[str], count: int, store: Store) -> None:
    arguments = [part for one in where for part in ("--where", one)]
    assert len(json.loads(lab(store, "rows", *arguments, "--json").stdout)["rows"]) == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows", "--where", "seed"], "--where takes FIELD=VALUE, got 'seed'."),
        (["rows", "--where", "sed=1"], "Did you mean 'seed'"),
        (["export", "rows.txt"], "expected a name that ends in .csv or .parquet, got .txt."),
        (["export", "rows"], "got no suffix."),
        (["status", "--store", "absent"], "there is no store at absent"),
    ],
)
def test_misuse_is_one_line_with_the_remedy(arguments: list[str], message: str, store: Store) -> None:
    done = lab(store, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_rows_are_exported_with_their_provenance(store: Store, tmp_path: Path) -> None:
    assert lab(store, "export", "rows.csv", "--where", "kind=trial").stdout == "3 rows: rows.csv\n"
    with open(tmp_path / "rows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(one["seed"] for one in rows) == ["0", "1", "2"]
    assert {one["machine"] for one in rows} == {"here"}
    assert float(rows[0]["rho"]) == 0.125


def test_rows_of_several_kinds_fit_one_parquet_table(store: Store, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'exhume[parquet]'")
    assert lab(store, "export", "rows.parquet").returncode == 0
    rows = {one["began"]: one for one in parquet.read_table(tmp_path / "rows.parquet").to_pylist()}
    assert len(rows) == 4
    assert rows["2026-01-01"]["notes"] == "one; two"  # a list as text
    assert rows["2026-01-01"]["outside"] is None
    assert rows["2025-12-31"]["outside"] == 3


def test_cleaning_takes_leftovers_and_finished_rows_on_demand_only(store: Store) -> None:
    refused = lab(store, "clean", "--where", "seed=1")
    assert refused.returncode == 2
    assert "1 finished rows would be deleted. Add --yes" in refused.stderr
    assert len(store.keys()) == 4
    assert lab(store, "clean").stdout == "deleted 3 leftovers and 0 rows\n"
    assert len(store.keys()) == 4
    assert lab(store, "clean", "--where", "seed=1", "--yes").stdout == "deleted 0 leftovers and 1 rows\n"
    assert sorted(one["row"]["seed"] for one in store.records()) == [0, 0, 2]


def test_the_store_may_be_named_by_the_environment(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EXHUME_LAB", str(store.root))
    (tmp_path / "elsewhere").mkdir()
    assert exhume("lab", "rows", cwd=tmp_path / "elsewhere").stdout.startswith("4 of 4 rows")
