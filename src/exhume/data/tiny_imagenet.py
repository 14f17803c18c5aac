"""Tiny-ImageNet in its original folder layout (train/<wnid>/images/*.JPEG), or an npz extract."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from exhume.data.array_files import find_within, open_pictures
from exhume.data.dataset import Dataset, balanced, photographs
from exhume.data.image_folder import read_image
from exhume.errors import ExhumeError

_CLASSES = (2, 116)  # the paper's pair, by position in the sorted list of wnids


def tiny_imagenet(*, n: int, data_dir: Path | None, size: int | None = None) -> Dataset:
    """The paper's balanced subset of class 2 (label -1) and class 116 (label +1)."""
    if data_dir is None:
        raise ExhumeError("tiny-imagenet needs --data-dir: the folder tiny-imagenet-200, or an npz with 'images' and 'labels'.")
    if n % 2:
        raise ExhumeError(f"tiny-imagenet: n must be even for two balanced classes, got {n}.")
    data_dir = find_within(data_dir, "tiny*.npz", "tiny-imagenet-200")
    images, labels = _from_npz(data_dir, n) if data_dir.suffix == ".npz" else _from_folder(data_dir, n)
    return photographs("tiny-imagenet", images.reshape(-1, 3, 64, 64), labels, size=size, label_size=1.0)


def _from_npz(path: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    arrays = open_pictures(path, 64)
    classes = np.unique(arrays["labels"])
    if len(classes) != 2:
        raise ExhumeError(f"{path}: expected two classes, got {len(classes)}.")
    picks = balanced([np.flatnonzero(arrays["labels"] == c) for c in classes], n, "tiny-imagenet")
    return arrays["images"][picks], np.where(arrays["labels"][picks] == classes[1], 1.0, -1.0)


def _from_folder(folder: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    train = folder / "train"
    if not train.is_dir():
        raise ExhumeError(f"{folder}: no folder 'train' in it. Give the unpacked tiny-imagenet-200 folder.")
    wnids = sorted(p.name for p in train.iterdir() if p.is_dir())
    if len(wnids) <= max(_CLASSES):
        raise ExhumeError(f"{train}: expected 200 class folders, got {len(wnids)}. Unpack the archive again.")
    images, labels = [], []
    for label, c in zip((-1.0, 1.0), _CLASSES, strict=True):
        files = sorted((train / wnids[c] / "images").glob("*.JPEG"), key=_number)
        if len(files) < n // 2:
            raise ExhumeError(f"{train / wnids[c]}: {len(files)} images, {n // 2} are needed for n = {n}. Lower --n.")
        images += [read_image(file, size=(64, 64)) for file in files[: n // 2]]
        labels += [label] * (n // 2)
    return np.stack(images), np.array(labels)


def _number(file: Path) -> int:
    """The number at the end of an image's name, as in n01443537_0.JPEG."""
    digits = file.stem.rpartition("_")[2]
    if not digits.isdecimal():
        raise ExhumeError(f"{file}: expected a name that ends in a number, as in n01443537_0.JPEG. Unpack the archive again.")
    return int(digits)
