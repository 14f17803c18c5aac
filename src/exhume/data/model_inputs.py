"""Rows exactly as a user's model was fed with them: nothing is standardised but by the mean and spread that the user names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from exhume.data.dataset import Dataset, one_size
from exhume.errors import ExhumeError


def model_inputs(
    name: str,
    X: np.ndarray,
    y: np.ndarray,
    *,
    mean: Sequence[float] | np.ndarray = (0.0,),
    spread: Sequence[float] | np.ndarray = (1.0,),
    columns: tuple[str, ...] = (),
) -> Dataset:
    """A dataset whose rows are (X - mean) / spread, one value for all, per channel, or per column."""
    image = X.ndim == 4
    raw = torch.from_numpy(np.array(X, dtype=np.float64))  # a copy: data frames hand out arrays that must not be written to
    centre, width = (_per_entry(what, np.asarray(v, dtype=np.float64), X) for what, v in (("mean", mean), ("std", spread)))
    if not bool((width > 0).all()):
        raise ExhumeError("--std must be positive everywhere.")
    rows = ((raw.flatten(1) - centre) / width).contiguous()
    y = np.array(y, dtype=np.float64)
    kind = "image" if image else "table"
    names = columns if columns or image else tuple(f"x{i}" for i in range(rows.shape[1]))
    white = 1.0
    if image:  # shown as pixels from 0 to white: bytes, shares, or values around zero
        low, white = (0.0, 255.0 if X.max() > 1 else 1.0) if X.min() >= 0 else (-float(np.abs(X).max()), 2 * float(np.abs(X).max()))
        centre = centre - low
    return Dataset(name, rows, torch.as_tensor(y), kind, centre, width, tuple(X.shape[1:]), names, white, label_size=one_size(y))


def _per_entry(what: str, values: np.ndarray, X: np.ndarray) -> torch.Tensor:
    """One value per input entry, (d,)."""
    d, channels = int(np.prod(X.shape[1:])), X.shape[1]
    if len(values) == d:
        full = values
    elif len(values) in (1, channels):
        full = np.repeat(np.broadcast_to(values, (channels,)), d // channels)
    else:
        raise ExhumeError(f"--{what} needs 1, {channels} or {d} values for inputs of shape {X.shape[1:]}, got {len(values)}.")
    return torch.as_tensor(np.ascontiguousarray(full))
