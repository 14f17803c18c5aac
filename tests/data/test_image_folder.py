"""Images of one's own: their pixels, their labels by folder, and files that are no images."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from exhume.data import DataRequest, load
from exhume.data import image_folder as module
from exhume.data.image_folder import read_folder, read_image
from exhume.errors import ExhumeError


def save(path: Path, colour: tuple[int, int, int] = (10, 20, 30), size: tuple[int, int] = (6, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


def test_a_folder_of_images(tmp_path: Path) -> None:
    for k, name in enumerate(("a", "b")):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (6, 4), (40 * i, 90 * k, 10)).save(tmp_path / name / f"{i}.png")
    data = load(DataRequest("folder", n=4, data_dir=tmp_path))
    assert data.shape == (3, 4, 6)
    assert data.labels.tolist() == [-1.0, -1.0, 1.0, 1.0]
    assert data.pictures(data.rows).shape == (4, 4, 6, 3)
    np.testing.assert_allclose(data.pictures(data.rows)[3, 0, 0] * 255, (40, 90, 10), atol=1e-9)


def test_pixels_are_read_with_channels_first(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", size=None), pixels.transpose(2, 0, 1))
    Image.fromarray(pixels[:, :, 0]).save(tmp_path / "grey.png")
    np.testing.assert_array_equal(read_image(tmp_path / "grey.png", size=None), np.stack([pixels[:, :, 0]] * 3))
    assert read_image(tmp_path / "a.png", size=(2, 3)).shape == (3, 3, 2)


def test_a_flat_folder_alternates_its_labels_in_name_order(tmp_path: Path) -> None:
    for i, name in enumerate(("c.png", "a.JPG", "b.bmp")):
        save(tmp_path / name, (100 * i, 0, 0))
    (tmp_path / "read-me.txt").write_text("no image")
    images, labels = read_folder(tmp_path)
    assert labels.tolist() == [-1.0, 1.0, -1.0]
    np.testing.assert_allclose(images[:, 0, 0, 0], [100, 200, 0], atol=3)  # one of them is a JPEG


def test_images_take_the_size_of_the_first(tmp_path: Path) -> None:
    save(tmp_path / "a.png", size=(6, 4))
    save(tmp_path / "b.png", (50, 60, 70), size=(12, 12))
    images, _ = read_folder(tmp_path)
    assert images.shape == (2, 3, 4, 6)
    np.testing.assert_array_equal(images[1, :, 2, 3], [50, 60, 70])


def test_more_than_two_folders_are_numbered_and_shared_evenly(tmp_path: Path) -> None:
    for name in ("x", "y", "z"):
        for i in range(4):
            save(tmp_path / name / f"{i}.png")
    assert read_folder(tmp_path, 7)[1].tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert len(read_folder(tmp_path)[1]) == 12
    with pytest.raises(ExhumeError, match=r"expected images or exactly two sub-folders \(labels -1 and \+1\), got more"):
        load(DataRequest("folder", n=6, data_dir=tmp_path))


def test_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    for place in (None, tmp_path / "nowhere"):
        with pytest.raises(ExhumeError, match="--data folder needs --data-dir with a folder of images"):
            load(DataRequest("folder", data_dir=place))
    with pytest.raises(ExhumeError, match="0 images, n = 1 are needed"):
        load(DataRequest("folder", data_dir=tmp_path))
    save(tmp_path / "only" / "a.png")
    with pytest.raises(ExhumeError, match="got one sub-folder"):
        load(DataRequest("folder", data_dir=tmp_path))
    with pytest.raises(ExhumeError, match=r"1 images, n = 5 are needed\. Lower --n"):
        load(DataRequest("folder", n=5, data_dir=tmp_path / "only"))


def test_an_image_of_too_many_pixels_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.png")
    monkeypatch.setattr(module, "_MAX_PIXELS", 23)
    with pytest.raises(ExhumeError, match=r"6 x 4 pixels are too many\. Shrink it"):
        read_image(tmp_path / "a.png", size=None)


@pytest.mark.parametrize("kind", ["PNG", "PPM", "GIF", "BMP"])
def test_a_damaged_byte_anywhere_is_survived(kind: str, tmp_path: Path) -> None:
    """Every byte of a small image in turn: readers fail with many kinds of errors."""
    whole = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(whole, kind)
    content, refused = whole.getvalue(), 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "a").write_bytes(damaged)
        try:
            read_image(tmp_path / "a", size=None)
        except ExhumeError:
            refused += 1
    assert refused


def test_what_is_no_image_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("hello")
    with pytest.raises(ExhumeError, match=r"a\.png is not a readable image .*Remove or replace it"):
        read_image(tmp_path / "a.png", size=None)
    with pytest.raises(ExhumeError, match=r"b\.png is not a readable image"):
        read_image(tmp_path / "b.png", size=None)
