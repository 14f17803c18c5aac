"""Dataset: training rows with everything needed to turn them back into pictures or table rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from exhume.errors import ExhumeError
from exhume.storage.tensor_file import read_tensors, write_tensors

_FORMAT = "exhume-dataset-1"


@dataclass(frozen=True)
class Dataset:
    """Rows as the model sees them, labels, and the way back: raw = rows * spread + mean."""

    name: str
    rows: torch.Tensor  # (n, d) float64
    labels: torch.Tensor  # (n,) float64
    kind: str  # "vector", "image" or "table"
    mean: torch.Tensor  # (d,)
    spread: torch.Tensor  # (d,)
    shape: tuple[int, ...]  # shape of one input: (d,) or (channels, height, width)
    columns: tuple[str, ...] = ()  # names of a table's columns
    white: float = 1.0  # raw value of a full-bright pixel
    input_norm: float | None = None  # common norm of all rows, where there is one by construction
    label_size: float | None = None  # |y|, where all labels have the same size
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        X, y = self.rows, self.labels
        if X.ndim != 2 or X.shape[0] < 1 or X.shape[1] < 1:
            raise ExhumeError(f"{self.name}: rows must be a non-empty (n, d) array, got shape {tuple(X.shape)}.")
        if y.shape != X.shape[:1]:
            raise ExhumeError(f"{self.name}: {X.shape[0]} rows need {X.shape[0]} labels, got shape {tuple(y.shape)}.")
        for what, values in (("rows", X), ("labels", y)):
            bad = (~torch.isfinite(values)).nonzero()
            if len(bad):
                raise ExhumeError(f"{self.name}: {what} hold NaN or infinity, first at {bad[0].tolist()}. Clean or drop them.")
        zero = (X.norm(dim=1) == 0).nonzero().flatten()
        if len(zero):
            raise ExhumeError(f"{self.name}: row {int(zero[0])} has norm zero, so its features vanish. Drop it or shift the data.")
        if X.shape[0] > 1 and bool((y == y[0]).all()):
            raise ExhumeError(f"{self.name}: all {len(y)} labels equal {y[0].item():g}. Give at least two distinct labels.")

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.rows.shape[0]

    @property
    def d(self) -> int:
        """Input dimension."""
        return self.rows.shape[1]

    @property
    def input_range(self) -> tuple[float, float] | None:
        """Least and largest value of a pixel as the model sees it; None for what is not a picture."""
        if self.kind != "image":
            return None
        return float((-self.mean / self.spread).min()), float(((self.white - self.mean) / self.spread).max())

    def raw(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows in the units they were collected in."""
        return rows.double() * self.spread + self.mean

    def pictures(self, rows: torch.Tensor) -> np.ndarray:
        """Image rows as (m, height, width, channels) values in [0, 1]."""
        images = (self.raw(rows) / self.white).clamp(0, 1).reshape(len(rows), *self.shape)
        return images.permute(0, 2, 3, 1).numpy()


def standardised(
    name: str,
    raw: np.ndarray,
    labels: np.ndarray,
    *,
    per_column: bool,
    shape: tuple[int, ...],
    kind: str,
    columns: tuple[str, ...] = (),
    white: float = 1.0,
    label_size: float | None = None,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """A dataset with mean 0 and spread 1 by the subset's own statistics, per column or over all entries (the paper's CIFAR-10)."""
    X = torch.as_tensor(np.asarray(raw, dtype=np.float64)).reshape(len(raw), -1)
    if per_column:
        mean, spread = X.mean(0), X.std(0, unbiased=False)
        spread = torch.where(spread > 1e-12 * spread.max(), spread, torch.ones_like(spread))
    else:
        mean, spread = X.mean().expand(X.shape[1]), X.std().expand(X.shape[1])
    return Dataset(
        name,
        (X - mean) / spread,
        torch.as_tensor(np.asarray(labels, dtype=np.float64)),
        kind,
        mean.clone(),
        spread.clone(),
        shape,
        columns,
        white,
        label_size=label_size,
        notes=notes,
    )


def one_size(labels: np.ndarray) -> float | None:
    """|y|, where all labels have the same size other than zero."""
    sizes = np.abs(labels)
    return float(sizes[0]) if len(labels) and np.ptp(sizes) == 0 and sizes[0] != 0 else None


def photographs(name: str, images: np.ndarray, labels: np.ndarray, *, size: int | None, label_size: float | None) -> Dataset:
    """Images (n, channels, side, side) of bytes, standardised over all entries; averaged down to `size` pixels per side."""
    n, channels, side, _ = images.shape
    if size is not None and (size < 1 or side % size):
        raise ExhumeError(f"{name}: pictures of {side} pixels cannot be averaged to {size}. Give a divisor of {side}.")
    if size is not None and size != side:
        step = side // size
        images = images.reshape(n, channels, size, step, size, step).mean(axis=(3, 5))
        name += f" at {size}x{size}"
    return standardised(
        name, images, labels, per_column=False, shape=images.shape[1:], kind="image", white=255.0, label_size=label_size
    )


def balanced(indices_by_class: list[np.ndarray], n: int, name: str) -> np.ndarray:
    """The first n/c indices of every class, class after class: the balanced protocol of Appendix D."""
    per = n // len(indices_by_class)
    if per * len(indices_by_class) != n:
        raise ExhumeError(f"{name}: n must be a multiple of {len(indices_by_class)} for balanced classes, got {n}.")
    for k, indices in enumerate(indices_by_class):
        if len(indices) < per:
            raise ExhumeError(f"{name}: class {k} has {len(indices)} samples, {per} are needed for n = {n}. Lower --n.")
    return np.concatenate([indices[:per] for indices in indices_by_class])


def save_dataset(dataset: Dataset, path: str | Path) -> None:
    """Write a dataset as one safetensors file: this is the truth that belongs to a release."""
    tensors = {f: getattr(dataset, f) for f in ("rows", "labels", "mean", "spread")}
    light = {k: v for k, v in vars(dataset).items() if k not in tensors}
    write_tensors(Path(path), tensors, {"format": _FORMAT, "dataset": light})


def load_dataset(path: str | Path) -> Dataset:
    """Read a dataset that exhume wrote."""
    tensors, header = read_tensors(Path(path), "truth", _FORMAT)
    try:
        light: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in header["dataset"].items()}
        values: dict[str, Any] = tensors | light
        return Dataset(**values)
    except (KeyError, TypeError) as error:
        raise ExhumeError(f"truth {path} lacks or misspells {error}. Write it again with `exhume train`.") from None
