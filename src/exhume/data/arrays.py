"""Data as people hold it in Python: arrays, tensors, data frames, sparse matrices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exhume.errors import ExhumeError


@dataclass(frozen=True)
class Table:
    """Rows as they were given, before anything is done to them."""

    X: np.ndarray  # (n, d), or pictures (n, channels, height, width)
    y: np.ndarray  # (n,)
    columns: tuple[str, ...] = ()  # names of the columns of X, where it has some


def as_array(values: Any) -> np.ndarray:
    """An array of anything that holds numbers: a sequence, an array, a tensor, a data frame or series, a sparse matrix.

    >>> as_array(torch.ones(2, requires_grad=True)).tolist()
    [1.0, 1.0]
    """
    if isinstance(values, torch.Tensor):
        dense = values.detach().cpu().to_dense()
        return (dense.float() if dense.dtype is torch.bfloat16 else dense).numpy()  # numpy has no bfloat16
    for convert in ("toarray", "to_numpy"):  # scipy's sparse matrices; data frames of pandas, polars and others
        if hasattr(values, convert):
            return np.asarray(getattr(values, convert)())
    try:
        return np.asarray(values)
    except ValueError:
        raise ExhumeError("expected numbers in an array, got rows of unlike lengths. Give every row as many numbers.") from None


def as_table(X: Any, y: Any, *, n: int | None = None) -> Table:
    """The first n rows of X with their labels, checked; columns keep the names that a data frame gives them."""
    rows, labels = as_array(X), as_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:  # a data frame of one column
        labels = labels[:, 0]
    check_arrays("data", rows, labels)
    if n is not None and not 1 <= n <= len(rows):
        raise ExhumeError(f"the data have {len(rows)} rows, n = {n} were asked for.")
    columns = tuple(str(name) for name in getattr(X, "columns", ()))
    return Table(rows[:n], labels[:n].astype(float), columns)


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
