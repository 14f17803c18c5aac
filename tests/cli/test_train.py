"""`exhume train`: a release, and the truth in a file of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from exhume.data import load_dataset
from exhume.release import load_release
from support.command_line import exhume

SMALL = ["--data", "sphere", "--d", "20", "--n", "5", "--ratio", "6"]


def test_what_is_released_and_what_stays_secret_are_two_files(tmp_path: Path) -> None:
    done = exhume("train", *SMALL, "--release", "r.safetensors", "--truth", "t.safetensors", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert (row["release"], row["truth"], row["p"], row["d"], row["n"]) == ("r.safetensors", "t.safetensors", 600, 20, 5)
    assert row["train_loss"] < 1e-20
    release, truth = load_release(tmp_path / "r.safetensors"), load_dataset(tmp_path / "t.safetensors")
    assert release.weights.shape == (1, 600)
    assert truth.rows.shape == (5, 20)
    # No row of the truth lies in what is released: neither its bytes nor those of its single precision.
    content = (tmp_path / "r.safetensors").read_bytes()
    for values in (truth.rows[0], truth.rows[0].float()):
        assert values.numpy().tobytes() not in content


def test_training_is_told_and_a_network_tells_more(tmp_path: Path) -> None:
    told = exhume("train", *SMALL, cwd=tmp_path).stdout
    for words in ("release.safetensors (what an attacker gets)", "truth.safetensors (keep it to yourself)", "600 / (20 x 5)"):
        assert words in told
    assert "feature drift" not in told
    network = exhume("train", *SMALL, "--victim", "two-layer", "--overwrite", cwd=tmp_path).stdout
    for words in ("steps", "feature drift", "first layer's change", "spectrum"):
        assert words in network


def test_the_same_seed_gives_the_same_release(tmp_path: Path) -> None:
    weights = []
    for seed in ("1", "1", "2"):
        assert exhume("train", *SMALL, "--seed", seed, "--overwrite", cwd=tmp_path).returncode == 0
        weights.append(load_release(tmp_path / "release.safetensors").weights)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--release", "a", "--truth", "a"], "--release and --truth must be different files."),
        (["--release", "taken"], "taken exists. Give another path or --overwrite."),
        (["--truth", "taken"], "taken exists. Give another path or --overwrite."),
        (["--truth", "/proc/nowhere/t"], "cannot write"),
    ],
)
def test_misuse_is_one_line_and_writes_nothing(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    done = exhume("train", *SMALL, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "mine"
