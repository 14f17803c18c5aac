"""Files that nobody vouches for: refused in one line, nothing executed, nothing inflated."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from exhume.auditing.loaders.sklearn_models import load_skops
from exhume.auditing.loaders.weight_files import load_weights
from exhume.data.array_files import open_npz
from exhume.errors import ExhumeError


class _Payload:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (exec, (f"open({str(self.path)!r}, 'w').close()",))


def test_a_pickle_that_runs_code_is_refused_and_does_not_run(tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    torch.save({"w": _Payload(proof)}, tmp_path / "zipped.pt")
    (tmp_path / "bare.pt").write_bytes(pickle.dumps(_Payload(proof)))
    for name in ("zipped.pt", "bare.pt"):
        with pytest.raises(ExhumeError, match="would run code"):
            load_weights(tmp_path / name)
    assert not proof.exists()


def test_a_header_that_claims_ten_gigabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", 10 * 1024**3) + b"{}")
    with pytest.raises(ExhumeError, match="header does not fit"):
        load_weights(path)
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ExhumeError, match="damaged"):
        load_weights(path)


@pytest.mark.parametrize(("name", "load"), [("bomb.pt", load_weights), ("bomb.skops", load_skops), ("bomb.npz", open_npz)])
def test_an_archive_that_inflates_is_refused(tmp_path: Path, name: str, load: Callable[[Path], object]) -> None:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 200_000_000)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ExhumeError, match=r"claims to unpack to 0\.2 GB"):
        load(path)


def test_foreign_pipelines_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("skops", reason="skops is not installed: pip install 'exhume[sklearn]'")
    path = tmp_path / "model.skops"
    path.write_bytes(b"not a zip")
    with pytest.raises(ExhumeError, match="not a skops file"):
        load_skops(path)
    schema = {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "FunctionNode",
        "content": {"module_path": "os", "function": "system"},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema | {"__id__": 1, "protocol": 2, "_skops_version": "0.16.0"}))
    path.write_bytes(buffer.getvalue())
    with pytest.raises(ExhumeError, match="could run code"):
        load_skops(path)


def test_names_are_names_and_never_paths(tmp_path: Path) -> None:
    save_file({"../../escape": torch.ones(2, 2), "<b>": torch.ones(1)}, tmp_path / "w.safetensors")
    assert set(load_weights(tmp_path / "w.safetensors")) == {"../../escape", "<b>"}
    assert not (tmp_path.parent.parent / "escape").exists()


def test_weights_that_are_no_numbers_or_no_weights_are_refused(tmp_path: Path) -> None:
    save_file({"w": torch.tensor([float("nan")])}, tmp_path / "nan.safetensors")
    torch.save({"epoch": 3}, tmp_path / "epoch.pt")
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "w.txt").write_text("")
    for name, words in (
        ("nan.safetensors", "NaN"),
        ("epoch.pt", "no state dict"),
        ("empty.pt", "damaged"),
        ("w.txt", "must be .safetensors"),
        ("absent.pt", "not a file"),
    ):
        with pytest.raises(ExhumeError, match=words):
            load_weights(tmp_path / name)


def test_checkpoints_of_training_scripts_are_understood(tmp_path: Path) -> None:
    torch.save({"state_dict": {"module.w": torch.ones(2)}, "epoch": 3}, tmp_path / "c.pt")
    assert set(load_weights(tmp_path / "c.pt")) == {"w"}
