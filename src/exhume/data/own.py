"""Rows of one's own: an npz with arrays X and y, or a CSV whose last column is the label."""

from __future__ import annotations

import csv
import zipfile
import zlib
from pathlib import Path

import numpy as np

from exhume.data.dataset import Dataset, one_size, standardised
from exhume.errors import ExhumeError
from exhume.files import check_zip, require_file

# Arrays are unpacked into memory; a small archive that claims more than this is a bomb.
_MAX_UNPACKED, _RATIO = 8 * 1024**3, 200


def open_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file; object arrays (pickles) are refused."""
    require_file(path, "data file")
    try:
        check_zip(path, "data file", most=_MAX_UNPACKED, ratio=_RATIO)
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, KeyError, zlib.error) as error:
        raise ExhumeError(f"{path} is not a plain npz file ({str(error).splitlines()[0]}). Save it with numpy.savez.") from None


def find_within(path: Path, *patterns: str) -> Path:
    """The first match of the patterns in a folder; the path itself where there is none."""
    for pattern in patterns if path.is_dir() else ():
        for match in sorted(path.glob(pattern)):
            return match
    return path


def read_rows(path: Path, n: int | None = None) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """X, y and column names of the first n rows of a file, as they stand there."""
    if path.suffix == ".csv":
        X, y, columns = _read_csv(path)
    elif path.suffix == ".npz":
        arrays = open_npz(path)
        if "X" not in arrays or "y" not in arrays:
            raise ExhumeError(f"{path}: expected arrays 'X' and 'y', got {sorted(arrays)}.")
        X, y, columns = arrays["X"], arrays["y"], ()
    else:
        raise ExhumeError(f"{path}: expected a .npz or .csv file, got {path.suffix or 'no suffix'}.")
    check_arrays(path, X, y)
    if n is not None and not 1 <= n <= len(X):
        raise ExhumeError(f"{path} has {len(X)} rows, n = {n} were asked for. Choose --n from 1 to {len(X)}.")
    names = columns if columns or X.ndim == 4 else tuple(f"x{i}" for i in range(X.shape[1]))
    return X[:n], y[:n].astype(float), names


def own_file(*, path: Path | None, n: int | None) -> Dataset:
    """The first n rows of a file: numbers are standardised per column, images (n, channels, height, width) over all entries."""
    if path is None:
        raise ExhumeError("--data file needs --data-file: an npz with arrays X and y, or a CSV with the label last.")
    X, y, columns = read_rows(path, n)
    image = X.ndim == 4
    white = (255.0 if X.max() > 1 else 1.0) if image else 1.0
    return standardised(
        path.stem,
        X,
        y,
        per_column=not image,
        shape=X.shape[1:],
        kind="image" if image else "table",
        columns=columns,
        white=white,
        label_size=one_size(y),
    )


def check_arrays(path: Path | str, X: np.ndarray, y: np.ndarray) -> None:
    """Raise unless X and y are real, finite and fit each other."""
    numeric = np.issubdtype(X.dtype, np.number) and np.issubdtype(y.dtype, np.number)
    if not numeric or np.iscomplexobj(X) or np.iscomplexobj(y):
        raise ExhumeError(f"{path}: X and y must be real numbers, got {X.dtype} and {y.dtype}.")
    if X.ndim not in (2, 4) or y.ndim != 1 or len(X) != len(y) or X.size == 0:
        raise ExhumeError(f"{path}: expected X (n, d) or (n, channels, height, width) and y (n,), got {X.shape} and {y.shape}.")
    if X.ndim == 4 and X.shape[1] not in (1, 3):
        raise ExhumeError(f"{path}: images need 1 or 3 channels in the second axis, got shape {X.shape}.")
    for what, values in (("X", X), ("y", y)):
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            raise ExhumeError(f"{path}: {what} holds NaN or infinity, first at {bad[0].tolist()}. Clean or drop it.")


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    require_file(path, "data file")
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ExhumeError(f"{path} is not a CSV file ({error}).") from None
    if len(lines) < 2 or len(lines[0]) < 2:
        raise ExhumeError(f"{path}: expected a header line and rows of at least two columns (the last is the label).")
    values = []
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(lines[0]):
            raise ExhumeError(f"{path}: line {number} has {len(line)} columns, the header has {len(lines[0])}.")
        try:
            values.append([float(cell) for cell in line])
        except ValueError:
            raise ExhumeError(f"{path}: line {number} holds text. Encode every column as a number.") from None
    table = np.array(values)
    return table[:, :-1], table[:, -1], tuple(lines[0][:-1])
