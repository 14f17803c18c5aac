"""A folder of one's own images: flat (labels alternate) or with two sub-folders (labels -1 and +1)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from exhume.data.dataset import Dataset, standardised
from exhume.errors import ExhumeError

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".tif", ".tiff"}
# A decompression bomb names a size far above any picture that an attack could rebuild.
_MAX_PIXELS = 4096 * 4096


def read_image(path: Path, *, size: tuple[int, int] | None) -> np.ndarray:
    """An image file as (3, height, width) uint8, resized where `size` (width, height) is given."""
    try:
        with Image.open(path) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise ExhumeError(f"{path}: {image.width} x {image.height} pixels are too many. Shrink it.")
            rgb = image.convert("RGB")
            if size is not None and rgb.size != size:
                rgb = rgb.resize(size, Image.Resampling.LANCZOS)
            return np.asarray(rgb).transpose(2, 0, 1)
    except ExhumeError:
        raise
    except Exception as error:  # a hostile file can fail anywhere in the reader
        raise ExhumeError(f"{path} is not a readable image ({error}). Remove or replace it.") from None


def image_folder(*, folder: Path | None, n: int | None) -> Dataset:
    """Images in name order, at the size of the first one; two sub-folders give the labels, else they alternate."""
    if folder is None or not folder.is_dir():
        raise ExhumeError(f"--data folder needs --data-dir with a folder of images, got {folder}.")
    images, labels = read_folder(folder, n)
    if not set(labels) <= {-1.0, 1.0}:
        raise ExhumeError(f"{folder}: expected images or exactly two sub-folders (labels -1 and +1), got more.")
    return standardised(
        folder.name, images, labels, per_column=False, shape=images.shape[1:], kind="image", white=255.0, label_size=1.0
    )


def read_folder(folder: Path, n: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, height, width) as bytes, and labels: -1/+1 for two sub-folders or none, else the number of the sub-folder."""
    groups = [sub for sub in sorted(folder.iterdir()) if sub.is_dir()]
    if len(groups) == 1:
        raise ExhumeError(f"{folder}: expected images, or a sub-folder for each class, got one sub-folder.")
    listed = [_images(group) for group in groups or [folder]]
    if groups and n is not None:
        listed = [files[: -(-n // len(groups))] for files in listed]
    files = [file for group in listed for file in group][:n]
    if len(files) < (n or 1):
        raise ExhumeError(f"{folder}: {len(files)} images, n = {n or 1} are needed. Lower --n.")
    first = read_image(files[0], size=None)
    size = (first.shape[2], first.shape[1])
    images = np.stack([read_image(file, size=size) for file in files])
    if groups:
        numbers = np.array([groups.index(file.parent) for file in files], dtype=float)
        labels = 2 * numbers - 1 if len(groups) == 2 else numbers
    else:
        labels = np.where(np.arange(len(files)) % 2 == 0, -1.0, 1.0)
    return images, labels


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in _SUFFIXES)
