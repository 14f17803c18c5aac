"""Tiny-ImageNet from its folders or an npz extract."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from exhume.data import DataRequest, load
from exhume.errors import ExhumeError


def original(folder: Path, *, classes: int = 200, numbers: tuple[int, ...] = (0, 1, 10)) -> None:
    """The original layout, with images in the paper's two classes only."""
    for c in range(classes):
        images = folder / "train" / f"n{c:08d}" / "images"
        images.mkdir(parents=True)
        if c in (2, 116):
            for i in numbers:
                Image.new("RGB", (64, 64), (c, i * 9, 7)).save(images / f"n{c:08d}_{i}.JPEG", quality=100)


def test_real_tiny_imagenet(tiny_imagenet_file: Path) -> None:
    data = load(DataRequest("tiny-imagenet", n=20, data_dir=tiny_imagenet_file))
    assert data.d == 12288
    assert data.labels.sum() == 0


def test_tiny_imagenet_folder_layout(tmp_path: Path) -> None:
    original(tmp_path)
    data = load(DataRequest("tiny-imagenet", n=4, data_dir=tmp_path))
    assert data.shape == (3, 64, 64)
    assert data.labels.tolist() == [-1.0, -1.0, 1.0, 1.0]
    greens = data.raw(data.rows).reshape(4, 3, -1)[:, 1].mean(1)
    assert greens[1] > greens[0]  # _0 before _1, and _10 is not second
    reds = data.raw(data.rows).reshape(4, 3, -1)[:, 0].mean(1)
    np.testing.assert_allclose(reds.numpy(), [2, 2, 116, 116], atol=3)  # classes 2 and 116 of the paper, as JPEG keeps them


def test_the_unpacked_folder_may_lie_inside(tmp_path: Path) -> None:
    original(tmp_path / "tiny-imagenet-200")
    inside, around = (
        load(DataRequest("tiny-imagenet", n=2, data_dir=place)) for place in (tmp_path / "tiny-imagenet-200", tmp_path)
    )
    np.testing.assert_array_equal(inside.rows.numpy(), around.rows.numpy())


def test_an_extract_is_balanced_over_its_two_classes(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 64, 64), dtype=np.uint8)
    np.savez(tmp_path / "tiny.npz", images=images, labels=np.array([7, 3, 3, 7, 3, 7]))
    data = load(DataRequest("tiny-imagenet", n=4, data_dir=tmp_path))
    assert data.labels.tolist() == [-1.0, -1.0, 1.0, 1.0]
    np.testing.assert_allclose(data.raw(data.rows).numpy(), images[[1, 2, 0, 3]].reshape(4, -1), atol=1e-9)
    np.savez(tmp_path / "tiny.npz", images=images, labels=np.arange(6))
    with pytest.raises(ExhumeError, match="expected two classes, got 6"):
        load(DataRequest("tiny-imagenet", n=4, data_dir=tmp_path))
    np.savez(tmp_path / "tiny.npz", images=images[:, :, :32, :32], labels=np.arange(6))
    with pytest.raises(ExhumeError, match=r"expected images \(N, 3, 64, 64\)"):
        load(DataRequest("tiny-imagenet", n=4, data_dir=tmp_path))


def test_folders_of_another_layout_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ExhumeError, match="n must be even for two balanced classes, got 3"):
        load(DataRequest("tiny-imagenet", n=3, data_dir=tmp_path))
    with pytest.raises(ExhumeError, match="no folder 'train' in it"):
        load(DataRequest("tiny-imagenet", n=2, data_dir=tmp_path))
    original(tmp_path / "few", classes=116)
    with pytest.raises(ExhumeError, match="expected 200 class folders, got 116"):
        load(DataRequest("tiny-imagenet", n=2, data_dir=tmp_path / "few"))
    original(tmp_path / "all", numbers=(0,))
    with pytest.raises(ExhumeError, match=r"1 images, 2 are needed for n = 4\. Lower --n"):
        load(DataRequest("tiny-imagenet", n=4, data_dir=tmp_path / "all"))
    (tmp_path / "all" / "train" / "n00000002" / "images" / "cat.JPEG").touch()
    with pytest.raises(ExhumeError, match=r"cat\.JPEG: expected a name that ends in a number"):
        load(DataRequest("tiny-imagenet", n=2, data_dir=tmp_path / "all"))
