"""`exhume reconstruct`: from a release alone to its rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exhume.data import DataRequest, load
from exhume.errors import ExhumeError
from exhume.lab import Trial, train_victim
from exhume.release import save_release
from exhume.result import load_reconstruction
from support.command_line import exhume, exhume_process

SMALL = ["--data", "sphere", "--d", "20", "--n", "5", "--ratio", "6"]


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases: one that gives up its rows, one with too few equations."""
    made = tmp_path_factory.mktemp("releases")
    for name, ratio in (("release", 6.0), ("short", 0.8)):
        data = DataRequest("sphere", d=20, n=5)
        save_release(train_victim(Trial(data, ratio=ratio), load(data)).release, made / f"{name}.safetensors")
    return made


def test_the_table_says_how_sure_each_row_is(folder: Path) -> None:
    done = exhume("reconstruct", "release.safetensors", "--out", "a.safetensors", "--quiet", cwd=folder)
    assert done.returncode == 0
    for words in (
        "converged and certified",
        "5, standard error of each at most",
        "signs",
        "resolved",
        "known norm",
        "a.safetensors",
    ):
        assert words in done.stdout
    assert load_reconstruction(folder / "a.safetensors").rows.shape == (5, 20)


def test_an_answer_that_is_not_certified_fails_where_one_was_expected(folder: Path) -> None:
    arguments = ["reconstruct", "short.safetensors", "--out", "b.safetensors", "--overwrite", "--quiet", "--starts", "1"]
    done = exhume(*arguments, "--expect", "--json", cwd=folder)
    assert done.returncode == 1
    assert json.loads(done.stdout)["certified"] is False
    assert exhume(*arguments, cwd=folder).returncode == 0
    assert (folder / "b.safetensors").exists()


def test_an_existing_answer_is_replaced_on_demand_only(folder: Path) -> None:
    path = folder / "c.safetensors"
    path.write_text("mine")
    refused = exhume("reconstruct", "release.safetensors", "--out", path.name, cwd=folder)
    assert refused.returncode == 2
    assert refused.stderr == "exhume: c.safetensors exists. Give another --out or --overwrite.\n"
    assert path.read_text() == "mine"
    assert exhume("reconstruct", "release.safetensors", "--out", path.name, "--overwrite", "--quiet", cwd=folder).returncode == 0
    assert load_reconstruction(path).certified


def test_the_number_of_rows_may_be_claimed(folder: Path) -> None:
    arguments = ["reconstruct", "release.safetensors", "--out", "d.safetensors", "--rows", "5", "--quiet", "--json"]
    row = json.loads(exhume(*arguments, cwd=folder).stdout)
    assert (row["n_found"], row["out"]) == (5, "d.safetensors")
    assert row["peak_rss_mb"] > 0


def test_the_release_itself_is_never_written_over(folder: Path) -> None:
    before = (folder / "release.safetensors").read_bytes()
    done = exhume("reconstruct", "release.safetensors", "--out", "./release.safetensors", "--overwrite", cwd=folder)
    assert done.returncode == 2
    assert "would be lost" in done.stderr
    assert (folder / "release.safetensors").read_bytes() == before


def test_a_result_that_cannot_be_written_leaves_the_checkpoint(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise ExhumeError("cannot write guess.safetensors: No space left on device.")

    run = (
        "reconstruct",
        "release.safetensors",
        "--out",
        str(tmp_path / "guess.safetensors"),
        "--checkpoint",
        str(tmp_path / "run"),
    )
    with monkeypatch.context() as patch:
        patch.setattr("exhume.result.save_reconstruction", full)
        assert exhume(*run, cwd=folder).returncode == 2
    assert (tmp_path / "run").exists()
    done = exhume(*run, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["certified"]
    assert not (tmp_path / "run").exists()
