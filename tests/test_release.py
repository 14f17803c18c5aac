from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from exhume.architectures import ModuleSpec
from exhume.errors import ExhumeError
from exhume.release import Release, load_release, save_release
from support.problems import small_sphere, trained


def test_a_release_survives_a_file(tmp_path: Path) -> None:
    release = trained(small_sphere(), dtype=torch.float32)
    save_release(release, tmp_path / "r.safetensors")
    back = load_release(tmp_path / "r.safetensors")
    assert torch.equal(back.weights, release.weights)
    assert (back.model, back.facts) == (release.model, release.facts)


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
        ({"features": {"count": 7, "kind": "network"}}, "wrong fields"),
        ({"features": {"kind": "forest"}}, "kind 'forest'"),
        ({"format": "exhume-release-99"}, "written by another version"),
        ({"format": "exhume-dataset-1"}, "must be exhume-release-1"),
    ],
)
def test_headers_are_checked(change: dict, message: str, tmp_path: Path) -> None:
    release = trained(small_sphere())
    header = {"format": "exhume-release-1", "features": release.model.header(), "facts": vars(release.facts)} | change
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
    header = {"format": "exhume-release-1", "features": release.model.header(), "facts": vars(release.facts)}
    write_header(tmp_path / "r.safetensors", header, weights)
    with pytest.raises(ExhumeError, match=message):
        load_release(tmp_path / "r.safetensors")


def test_a_module_of_ones_own_has_no_file_form(tmp_path: Path) -> None:
    spec = ModuleSpec("mine", (4,), 1, 3, 3, own=torch.nn.Linear(4, 3), grows_with_inputs=False)
    with pytest.raises(ExhumeError, match="cannot be written"):
        save_release(Release(torch.ones(1, 3), spec), tmp_path / "r.safetensors")


def test_the_facts_of_a_network_are_asked_of_networks_only() -> None:
    with pytest.raises(ExhumeError, match="expected the release of a network"):
        _ = trained(small_sphere()).network
