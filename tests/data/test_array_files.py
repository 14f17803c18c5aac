"""Files of arrays: what is in them, and that no file can do more than be refused."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from exhume.data import array_files
from exhume.data.array_files import find_within, open_npz, open_pictures
from exhume.errors import ExhumeError


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back_as_they_were_saved(save: Callable[..., None], tmp_path: Path) -> None:
    arrays = {"X": np.random.default_rng(0).normal(size=(5, 3)), "labels": np.arange(5), "names": np.array(["a", "b"])}
    save(tmp_path / "a.npz", **arrays)
    back = open_npz(tmp_path / "a.npz")
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array, strict=True)


def test_members_that_are_no_arrays_are_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.ones(2))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("read-me.txt", "hello")
        archive.writestr("y.npy", "no array at all")
    assert list(open_npz(tmp_path / "a.npz")) == ["X"]


def huge_array(shape: tuple[int, ...]) -> bytes:
    """An npz file of a few bytes whose array claims that shape."""
    header, file = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("X.npy", header.getvalue() + bytes(80))
    return file.getvalue()


def plain_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones(3))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no zip archive"),
        (b"PK\x03\x04 and no more", "no zip archive"),
        (plain_array(), "no zip archive"),
        (huge_array((1 << 45,)), "Unable to allocate"),
        (huge_array((1 << 61,)), "too big"),
        (huge_array((-3,)), "negative"),
        (huge_array((100,)), "EOF"),
    ],
)
def test_a_file_that_is_no_npz_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ExhumeError, match=rf"not a plain npz file \(.*{message}.*numpy\.savez"):
        open_npz(tmp_path / "a.npz")


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ExhumeError, match="Object arrays cannot be loaded"):
        open_npz(tmp_path / "a.npz")
    with pytest.raises(ExhumeError, match="is not a file"):
        open_npz(tmp_path)


def test_a_file_that_claims_more_than_memory_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", X=np.ones(1000))
    monkeypatch.setattr(array_files, "_MOST_UNPACKED", 8000)  # the array alone, without its header
    with pytest.raises(ExhumeError, match="claims to unpack to"):
        open_npz(tmp_path / "a.npz")


def test_a_damaged_byte_anywhere_is_survived(tmp_path: Path) -> None:
    """Every byte of a small file in turn, so that zip, zlib and numpy all stumble: encryption, versions, sizes, checksums."""
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.arange(6.0))
    whole, refused = path.read_bytes(), 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            open_npz(path)
        except ExhumeError:
            refused += 1
    assert refused > len(whole) // 2


IMAGES = np.zeros((4, 3, 8, 8), dtype=np.uint8)
LABELS = np.array([1, 2, 1, 2])


def test_pictures_come_with_their_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=IMAGES, labels=LABELS, more=np.ones(2))
    arrays = open_pictures(tmp_path / "a.npz", 8)
    assert set(arrays) == {"images", "labels", "more"}
    np.testing.assert_array_equal(arrays["labels"], LABELS)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, r"arrays 'images' and 'labels', got \['images'\]"),
        ({"images": IMAGES, "labels": LABELS[:3]}, r"got uint8 \(4, 3, 8, 8\) for int64 \(3,\)"),
        ({"images": IMAGES.transpose(0, 2, 3, 1), "labels": LABELS}, r"\(4, 8, 8, 3\)"),
        ({"images": IMAGES.reshape(4, -1), "labels": LABELS}, r"\(4, 192\)"),
        ({"images": IMAGES, "labels": np.array(3)}, r"for int64 \(\)"),
        ({"images": IMAGES, "labels": LABELS.astype(str)}, "for <U"),
        ({"images": IMAGES.astype(str), "labels": LABELS}, "got <U"),
    ],
)
def test_pictures_of_another_form_are_refused(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(ExhumeError, match=message):
        open_pictures(tmp_path / "a.npz", 8)


def test_the_first_match_of_the_first_pattern_is_found(tmp_path: Path) -> None:
    for name in ("b.npz", "a.npz", "a.tar.gz"):
        (tmp_path / name).touch()
    assert find_within(tmp_path, "*.npz", "*.tar.gz") == tmp_path / "a.npz"
    assert find_within(tmp_path, "*.zip", "*.tar.gz") == tmp_path / "a.tar.gz"
    assert find_within(tmp_path, "*.zip") == tmp_path
    assert find_within(tmp_path / "b.npz", "*.npz") == tmp_path / "b.npz"
