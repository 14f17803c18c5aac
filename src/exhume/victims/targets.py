"""Labels as a loss wants them: numbers, signs, classes or one-hot rows."""

from __future__ import annotations

import torch

from exhume.data import Dataset
from exhume.errors import ExhumeError

LOSSES = ("square", "logistic", "cross-entropy")


def signs_of(dataset: Dataset) -> torch.Tensor:
    """Labels as -1/+1, (n,): the sign of each (Section 5.2's logistic task)."""
    signs = torch.where(dataset.labels > 0, 1.0, -1.0).double()
    if bool((signs == signs[0]).all()):
        raise ExhumeError(f"{dataset.name}: the logistic loss needs labels of both signs, got only {signs[0].item():+g}.")
    return signs


def classes_of(dataset: Dataset, k: int) -> torch.Tensor:
    """Labels as classes 0..k-1, (n,): the distinct labels in order, or, where there are more of them than k, k equal ranks."""
    values, index = torch.unique(dataset.labels, return_inverse=True)
    if len(values) <= k:
        return index
    return dataset.labels.argsort(stable=True).argsort(stable=True) * k // dataset.n


def one_hot(classes: torch.Tensor, k: int) -> torch.Tensor:
    """(n, k) rows with a single 1."""
    return torch.nn.functional.one_hot(classes, k).double()


def check_loss(loss: str, k: int) -> None:
    """A loss must be known and fit the number of outputs."""
    if loss not in LOSSES:
        raise ExhumeError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}.")
    if k < 1 or (loss == "logistic" and k != 1) or (loss == "cross-entropy" and k < 2):
        needs = {"logistic": "exactly 1 output", "cross-entropy": "at least 2 outputs"}.get(loss, "at least 1 output")
        raise ExhumeError(f"{loss} loss needs {needs}, got --k {k}.")
