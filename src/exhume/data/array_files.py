"""Files that hold arrays, read without executing anything and within bounds."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from exhume.errors import ExhumeError
from exhume.storage.file_checks import check_zip, require_file

# Arrays are unpacked into memory. A file that claims to hold more than this, ...
_MOST_UNPACKED = 8 * 1024**3
# ... or this many times its own size, is a bomb.
_MOST_RATIO = 200


def open_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file; object arrays (pickles) are refused."""
    require_file(path, "data file")
    try:
        if not zipfile.is_zipfile(path):
            raise zipfile.BadZipFile("it is no zip archive")
        check_zip(path, "data file", most=_MOST_UNPACKED, ratio=_MOST_RATIO)
        with np.load(path, allow_pickle=False) as file:
            members = {name: file[name] for name in file.files}
            return {name: value for name, value in members.items() if isinstance(value, np.ndarray)}  # others come as bytes
    except ExhumeError:
        raise
    except Exception as error:  # a hostile file can fail anywhere in the reader
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ExhumeError(f"{path} is not a plain npz file ({reason}). Save it with numpy.savez.") from None


def open_pictures(path: Path, side: int) -> dict[str, np.ndarray]:
    """All arrays of an npz file that holds pictures: 'images' (N, 3, side, side) and 'labels' (N,)."""
    arrays = open_npz(path)
    if "images" not in arrays or "labels" not in arrays:
        raise ExhumeError(f"{path}: expected arrays 'images' and 'labels', got {sorted(arrays)}.")
    images, labels = arrays["images"], arrays["labels"]
    numeric = np.issubdtype(images.dtype, np.number) and np.issubdtype(labels.dtype, np.number)
    if not numeric or labels.ndim != 1 or images.shape != (len(labels), 3, side, side):
        raise ExhumeError(
            f"{path}: expected images (N, 3, {side}, {side}) for N labels, got {images.dtype} {images.shape} for {labels.dtype} "
            f"{labels.shape}."
        )
    return arrays


def find_within(path: Path, *patterns: str) -> Path:
    """The first match of the patterns in a folder; the path itself where there is none."""
    for pattern in patterns if path.is_dir() else ():
        for match in sorted(path.glob(pattern)):
            return match
    return path
