"""`exhume trial` as a person or a script meets it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support.command_line import exhume, exhume_process

SMALL = ["--data", "sphere", "--d", "20", "--n", "5", "--ratio", "6"]
CONTRACT = {
    "rho_signed", "rho", "chance", "n_true", "n_found", "covered", "certified", "status", "loss", "span_residual",
    "passes", "seconds", "peak_rss_mb",
}  # fmt: skip


def test_trial_prints_one_json_object_and_nothing_else() -> None:
    done = exhume_process("trial", *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row.keys() >= CONTRACT
    assert row["certified"] is True
    assert row["n_found"] == row["n_true"] == 5
    assert row["rho_signed"] < 1e-6 < row["chance"]
    assert done.stderr == ""


def test_expectation_sets_the_exit_code() -> None:
    low = exhume("trial", "--data", "sphere", "--d", "20", "--n", "8", "--ratio", "0.8", "--expect", "0.1", "--json")
    assert low.returncode == 1
    assert json.loads(low.stdout)["certified"] is False
    assert exhume("trial", *SMALL, "--expect", "0.1").returncode == 0


def test_interrupted_run_goes_on_to_the_same_answer(tmp_path: Path) -> None:
    options = ["trial", "--data", "sphere", "--d", "100", "--n", "20", "--ratio", "3", "--json", "--checkpoint", "run.ckpt"]
    whole = json.loads(exhume(*options[:-2], cwd=tmp_path).stdout)
    command = [sys.executable, "-m", "exhume", *options]
    for _ in range(20):
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background shell ignores it
        )
        deadline = time.monotonic() + 60
        while not (tmp_path / "run.ckpt").exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        if process.returncode == 130:
            break
    assert process.returncode == 130, err
    assert "goes on from run.ckpt" in err
    resumed = json.loads(exhume(*options, cwd=tmp_path).stdout)
    # The same rows up to rounding: sums may round by where memory lies.
    assert resumed["n_found"] == whole["n_found"]
    assert resumed["rho_signed"] == pytest.approx(whole["rho_signed"], abs=1e-9)
    assert resumed["certified"] is whole["certified"] is True


def test_own_rows_with_nan_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.array([[1.0, np.nan], [2.0, 3.0]]), y=np.array([1.0, -1.0]))
    done = exhume("trial", "--data", "file", "--data-file", "rows.npz", "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "NaN" in done.stderr
    assert done.stdout == ""


def test_own_rows_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(8, 12)), y=np.where(np.arange(8) % 2, 1.0, -1.0))
    arguments = ["--data", "file", "--data-file", "rows.npz", "--ratio", "20", "--out", "page", "--json"]
    done = exhume("trial", *arguments, cwd=tmp_path)
    row = json.loads(done.stdout)
    assert row["covered"] == 8
    assert "<table" in (tmp_path / row["page"]).read_text()


def test_a_person_reads_a_table_with_chance_beside_every_error() -> None:
    told = exhume("trial", "--data", "digits", "--n", "3", "--ratio", "6", "--quiet").stdout
    for words in ("gauss-newton on digits", "converged and certified", "3 found, 3 true, 3 within 10%", "(chance", "PSNR, SSIM"):
        assert words in told


def test_an_expectation_that_is_missed_is_told(tmp_path: Path) -> None:
    done = exhume("trial", "--data", "sphere", "--d", "20", "--n", "8", "--ratio", "0.8", "--expect", "0.1", "--quiet")
    assert done.returncode == 1
    assert "is above the expected 0.1." in done.stderr
