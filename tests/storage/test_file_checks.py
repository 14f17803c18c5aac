"""Files looked at before any library reads them."""

from __future__ import annotations

import os
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from exhume.errors import ExhumeError
from exhume.storage.file_checks import check_safetensors, check_zip, require_file


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        with pytest.raises(ExhumeError, match=r"^release .* is not a file\. Check the path"):
            require_file(path, "release")
    (tmp_path / "there").touch()
    require_file(tmp_path / "there", "release")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").touch(mode=0o000)
    with pytest.raises(ExhumeError, match=r"cannot be read\. Check its permissions"):
        require_file(tmp_path / "secret", "release")


def archive(path: Path, size: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a", bytes(size // 2))
        file.writestr("b", bytes(size - size // 2))
    return path


@pytest.mark.parametrize(
    ("size", "most", "ratio", "refused"),
    [
        (15_000_000, 10**9, 1, False),  # harmless whatever the ratio
        (15_000_000, 14_999_999, 10**9, True),
        (15_000_000, 15_000_000, 10**9, False),
        (20_000_000, 10**9, 10, True),
        (20_000_000, 10**9, 10**4, False),
    ],
)
def test_an_archive_may_unpack_to_so_much_and_no_more(size: int, most: int, ratio: int, refused: bool, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", size)
    if not refused:
        check_zip(path, "model", most=most, ratio=ratio)
        return
    with pytest.raises(ExhumeError, match=rf"^model .* of {path.stat().st_size} bytes claims to unpack to {size / 1e9:.3g} GB"):
        check_zip(path, "model", most=most, ratio=ratio)


def test_what_is_no_archive_is_left_to_its_reader(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1000))
    check_zip(tmp_path / "a", "model", most=1, ratio=1)


def test_a_genuine_header_passes_and_one_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({"w": torch.ones(3)}, path)
    check_safetensors(path, "release")
    whole = path.read_bytes()
    path.write_bytes(struct.pack("<Q", 2) + b"{}")  # the smallest there is, and all of the file
    check_safetensors(path, "release")
    claims = [0, 1, len(whole) - 7, 64 * 1024 * 1024 + 1, 2**63]
    for content in (b"", whole[:7], *(struct.pack("<Q", claim) + whole[8:] for claim in claims)):
        path.write_bytes(content)
        with pytest.raises(ExhumeError, match="is not a safetensors file"):
            check_safetensors(path, "release")
    with pytest.raises(ExhumeError, match="is not a file"):
        check_safetensors(tmp_path, "release")


def test_a_header_is_bounded_even_where_the_file_is_large(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 65 * 1024 * 1024))
        file.truncate(100 * 1024 * 1024)  # sparse: no disk is used
    with pytest.raises(ExhumeError, match="is not a safetensors file"):
        check_safetensors(path, "release")
