"""Rows of one's own: an npz with arrays X and y, or a CSV whose last column is the label."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from exhume.data.array_files import open_npz
from exhume.data.arrays import Table, check_arrays
from exhume.data.dataset import Dataset, one_size, standardised
from exhume.errors import ExhumeError
from exhume.storage.file_checks import require_file


def read_table(path: Path, n: int | None = None) -> Table:
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
    return Table(X[:n], y[:n].astype(float), names)


def table_file(*, path: Path | None, n: int | None) -> Dataset:
    """The first n rows of a file: numbers are standardised per column, images (n, channels, height, width) over all entries."""
    if path is None:
        raise ExhumeError("--data file needs --data-file: an npz with arrays X and y, or a CSV with the label last.")
    table = read_table(path, n)
    X, y, columns = table.X, table.y, table.columns
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


def _read_csv(path: Path) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    require_file(path, "data file")
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:  # spreadsheets begin a file with a mark
            reader = csv.reader(file)
            numbered = [(reader.line_num, line) for line in reader if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ExhumeError(f"{path} is not a CSV file ({error}).") from None
    header = numbered[0][1] if numbered else []
    if len(numbered) < 2 or len(header) < 2:
        raise ExhumeError(f"{path}: expected a header line and rows of at least two columns (the last is the label).")
    values = []
    for number, line in numbered[1:]:
        if len(line) != len(header):
            raise ExhumeError(f"{path}: line {number} has {len(line)} columns, the header has {len(header)}.")
        try:
            values.append([float(entry) for entry in line])
        except ValueError:
            raise ExhumeError(f"{path}: line {number} holds text. Encode every column as a number.") from None
    table = np.array(values)
    return table[:, :-1], table[:, -1], tuple(header[:-1])
