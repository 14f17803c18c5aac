"""The command line as a person or a script meets it: real processes, real files."""

from __future__ import annotations

import json
import os
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


def test_help_reads_like_a_page_and_is_quick() -> None:
    start = time.perf_counter()
    done = exhume_process("--help")
    assert done.returncode == 0
    assert "Exit codes" in done.stdout
    assert time.perf_counter() - start < 2  # torch is not imported (2.4 s)


def test_trial_prints_one_json_object_and_nothing_else() -> None:
    done = exhume_process("trial", *SMALL, "--json")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row.keys() >= CONTRACT
    assert row["certified"] is True
    assert row["n_found"] == row["n_true"] == 5
    assert row["rho_signed"] < 1e-6 < row["chance"]
    assert done.stderr == ""


def test_train_reconstruct_score_in_three_steps(tmp_path: Path) -> None:
    assert exhume("train", *SMALL, cwd=tmp_path).returncode == 0
    truth = (tmp_path / "truth.safetensors").rename(tmp_path / "secret.safetensors")  # the attack cannot read it
    done = exhume("reconstruct", "release.safetensors", "--expect", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["certified"]
    scored = exhume("score", "guess.safetensors", "--truth", truth.name, "--json", "--picture", "errors.svg", cwd=tmp_path)
    assert json.loads(scored.stdout)["rho_signed"] < 1e-6
    assert "<svg" in (tmp_path / "errors.svg").read_text()
    misnamed = exhume("score", "guess.safetensors", "--truth", truth.name, "--picture", "errors.jpg", cwd=tmp_path)
    assert misnamed.returncode == 2
    assert ".svg" in misnamed.stderr
    again = exhume("train", *SMALL, cwd=tmp_path)
    assert again.returncode == 2
    assert "exists" in again.stderr
    assert "exists" in exhume("reconstruct", "release.safetensors", cwd=tmp_path).stderr


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trial", "--data", "spher"], "Did you mean 'sphere'"),
        (["trial", "--activation", "rellu"], "Did you mean 'relu'"),
        (["trial", "--attack", "gauss-newtn"], "Did you mean 'gauss-newton'"),
        (["trial", "--victim", "rff"], "Did you mean 'rf'"),
        (["trail"], "Did you mean 'trial'"),
        (["trial", *SMALL, "--p", "3"], "cannot fit"),
        (["trial", *SMALL, "--ratio", "-1"], "--ratio must be a positive number"),
        (["trial", *SMALL, "--ratio", "nan"], "--ratio must be a positive number"),
        (["trial", *SMALL, "--ridge", "-1"], "ridge must not be negative"),
        (["trial", *SMALL, "--memory", "much"], "not a size"),
        (["trial", *SMALL, "--memory", "1kB"], "Raise --memory"),
        (["trial", *SMALL, "--device", "abacus"], "cannot be used here"),
        (["trial", *SMALL, "--rows", "0"], "rows must be at least 1"),
        (["trial", *SMALL, "--max-steps", "5"], "does not take --max-steps"),
        (["trial", "--data", "digits", "--d", "3"], "--data digits does not take --d"),
        (["trial", "--data", "wine", "--data-dir", "x"], "--data wine does not take --data-dir"),
        (["trial", *SMALL, "--k", "3"], "--victim rf does not take --k"),
        (["trial", *SMALL, "--victim", "two-layer", "--ridge", "1"], "--victim two-layer does not take --ridge"),
        (["reconstruct", "nothing.safetensors"], "is not a file"),
        (["law", "--d", "3", "--n", "3"], "either --p or --ratio"),
        (["law", "--p", "0", "--d", "3", "--n", "3"], "p must be at least 1"),
        (["activation", "tanj"], "Did you mean 'tanh'"),
        (["demo", "--out", "/proc/nowhere"], "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = exhume(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4  # click adds its usage lines
    assert not list(tmp_path.iterdir())


def test_bad_input_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = exhume_process("reconstruct", "nothing.safetensors", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "exhume: release nothing.safetensors is not a file. Check the path.\n"
    assert done.stdout == ""


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


def test_law_activation_and_data_speak_json() -> None:
    law = json.loads(exhume("law", "--ratio", "0.5", "--d", "100", "--n", "20", "--json").stdout)
    assert law["outcome"] == "impossible"
    assert not law["determined"]
    assert json.loads(exhume("law", "--p", "8000", "--d", "100", "--n", "20", "--json").stdout)["outcome"] == "expected"
    reading = json.loads(exhume("activation", "relu", "--json").stdout)
    assert reading["coefficients"][1] == pytest.approx(0.5)
    assert "sphere" in json.loads(exhume("data", "--json").stdout)
    assert json.loads(exhume("data", "digits", "--n", "10", "--json").stdout)["d"] == 64


def test_completion_is_offered() -> None:
    environment = os.environ | {"_EXHUME_COMPLETE": "bash_source"}
    code = "import sys; sys.argv[0] = 'exhume'; from exhume.cli import main; main(prog_name='exhume')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert "_exhume_completion" in done.stdout


def test_memory_stays_within_the_budget(tmp_path: Path) -> None:
    """V would take 480 MB; with a budget of 150 MB the whole attack, Python and torch included, stays within 300 MB of it."""
    d, n, p = 600, 4, 200_000
    options = ["--data", "sphere", "--d", str(d), "--n", str(n), "--p", str(p), "--dtype", "float32"]
    assert exhume("train", *options, "--memory", "150MB", cwd=tmp_path).returncode == 0
    done = exhume_process("reconstruct", "release.safetensors", "--memory", "150MB", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["certified"]
    assert row["n_found"] == n
    assert p * d * 4 > 450e6
    assert row["peak_rss_mb"] <= 150 + 300


def test_compare_puts_attacks_side_by_side(tmp_path: Path) -> None:
    victim = ["--victim", "two-layer", "--data", "digits", "--n", "3", "--ratio", "6", "--know-n"]
    quick = ["--attacks", "subspace,kkt,kkt-multiclass", "--max-steps", "100", "--step-size", "auto"]
    done = exhume("compare", *victim, *quick, "--out", str(tmp_path / "page"), "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [row["attack"] for row in told["attacks"]] == ["subspace", "kkt"]
    assert all(row.keys() >= CONTRACT | {"needs", "train_loss", "feature_drift"} for row in told["attacks"])
    assert "one output per class" in told["refused"]["kkt-multiclass"]
    page = (tmp_path / "page" / "index.html").read_text()
    assert "2 attacks on one victim" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    shown = exhume("compare", *victim, *quick, "--quiet")
    assert "chance" in shown.stdout
    assert "had to know" in shown.stdout
    listed = exhume("compare", "--list", "--json")
    assert set(json.loads(listed.stdout)) >= {"gauss-newton", "ntk"}
    assert exhume("compare", *victim, "--attacks", "kkd").returncode == 2
    assert exhume("trial", *victim, "--attack", "ntk", "--step-size", "fast").returncode == 2
