from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from conftest import small_sphere, trained
from exhume.checkpoint import Checkpoint
from exhume.errors import ExhumeError
from exhume.files import write_atomically
from exhume.release import load_release, save_release


def test_a_release_survives_a_file(tmp_path: Path) -> None:
    release = trained(small_sphere(), dtype=torch.float32)
    save_release(release, tmp_path / "r.safetensors")
    back = load_release(tmp_path / "r.safetensors")
    assert torch.equal(back.weights, release.weights)
    assert (back.features, back.facts) == (release.features, release.facts)


def write_header(path: Path, header: dict, weights: torch.Tensor) -> None:
    save_file({"weights": weights}, path, metadata={"exhume": json.dumps(header)})


def test_foreign_and_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.safetensors"
    release = trained(small_sphere())
    save_release(release, path)
    whole = path.read_bytes()
    cases = {
        "is not a safetensors file": [b"", b"hello", pickle.dumps([1, 2, 3]), struct.pack("<Q", 10 * 2**30) + b"{}"],
        "is damaged": [whole[:-50]],
    }
    for message, contents in cases.items():
        for content in contents:
            path.write_bytes(content)
            with pytest.raises(ExhumeError, match=message):
                load_release(path)
    save_file({"weights": release.weights}, path)
    with pytest.raises(ExhumeError, match="without an exhume header"):
        load_release(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"facts": {"n": "many"}}, "Facts.n must be int"),
        ({"features": {"count": 7}}, "wrong fields"),
        ({"format": "exhume-release-99"}, "must be exhume-release-1"),
    ],
)
def test_headers_are_checked(change: dict, message: str, tmp_path: Path) -> None:
    release = trained(small_sphere())
    header = {"format": "exhume-release-1", "features": vars(release.features), "facts": vars(release.facts)} | change
    write_header(tmp_path / "r.safetensors", header, release.weights)
    with pytest.raises(ExhumeError, match=message):
        load_release(tmp_path / "r.safetensors")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.full((1, 600), torch.nan, dtype=torch.float64), "NaN or infinity"),
        (torch.zeros(1, 600, dtype=torch.float64), "all weights are zero"),
        (torch.ones(1, 7, dtype=torch.float64), "must have shape"),
        (torch.ones(1, 600, dtype=torch.float16), "float32 or float64"),
    ],
)
def test_weights_are_checked(weights: torch.Tensor, message: str, tmp_path: Path) -> None:
    release = trained(small_sphere())
    header = {"format": "exhume-release-1", "features": vars(release.features), "facts": vars(release.facts)}
    write_header(tmp_path / "r.safetensors", header, weights)
    with pytest.raises(ExhumeError, match=message):
        load_release(tmp_path / "r.safetensors")


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("old")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(ExhumeError, match="No space left"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]


def test_a_checkpoint_takes_the_same_rows_under_two_names(tmp_path: Path) -> None:
    rows = torch.arange(6.0).reshape(2, 3)
    kept = Checkpoint(tmp_path / "run", {"seed": 0})
    kept.save({"X": rows, "again": rows, "turned": rows.T}, {"step": 3}, now=True)
    loaded = Checkpoint(tmp_path / "run", {"seed": 0}).load()
    assert loaded is not None
    tensors, values = loaded
    assert values == {"step": 3}
    assert torch.equal(tensors["again"], rows)
    assert torch.equal(tensors["turned"], rows.T)
