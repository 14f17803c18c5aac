"""The training losses by name, with all that training and attacks have to know of each. To add one: an entry in LOSSES."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from exhume.data import Dataset
from exhume.errors import ExhumeError, unknown_name

Outputs = torch.Tensor  # (n, k)
Targets = torch.Tensor  # (n, k)


@dataclass(frozen=True)
class Loss:
    """One loss: summed over samples when it is trained on, its mean when it is reported."""

    name: str
    least_outputs: int
    most_outputs: float  # may be infinite
    stops_at: float  # mean loss at which training ends: interpolation for the square loss, every label with a margin for others
    paper_step: float  # Appendix D's step size
    value: Callable[[Outputs, Targets], torch.Tensor]
    curvature: Callable[[Outputs, Targets], float]  # largest second derivative in an output, at these outputs
    targets: Callable[[Dataset, int], Targets]
    fits_labels: bool  # outputs end at the labels themselves, so that their size is known to who knows the labels'

    def check(self, k: int) -> None:
        """The loss must fit the number of outputs."""
        if not self.least_outputs <= k <= self.most_outputs:
            few = "at least" if math.isinf(self.most_outputs) else "exactly"
            plural = "" if self.least_outputs == 1 else "s"
            raise ExhumeError(f"{self.name} loss needs {few} {self.least_outputs} output{plural}, got --k {k}.")


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


def _one_hot_targets(dataset: Dataset, k: int) -> Targets:
    return one_hot(classes_of(dataset, k), k)


def _square_targets(dataset: Dataset, k: int) -> Targets:
    return dataset.labels[:, None] if k == 1 else _one_hot_targets(dataset, k)


def _logistic_curvature(outputs: Outputs, targets: Targets) -> float:
    """At most min(r, 1/4) at a residual r."""
    return min(float(torch.sigmoid(-targets * outputs).max()), 0.25)


def _cross_entropy_curvature(outputs: Outputs, targets: Targets) -> float:
    """At most min(2 r, 1/2) at a residual r."""
    return min(2 * float((1 - (targets * torch.softmax(outputs, dim=1)).sum(1)).max()), 0.5)


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss(
            "square",
            1,
            math.inf,
            stops_at=1e-12,
            paper_step=1e-5,
            value=lambda f, y: ((f - y) ** 2).sum() / 2,
            curvature=lambda f, y: 1.0,
            targets=_square_targets,
            fits_labels=True,
        ),
        Loss(
            "logistic",
            1,
            1,
            stops_at=1e-2,
            paper_step=1e-3,
            value=lambda f, y: torch.nn.functional.softplus(-y * f).sum(),
            curvature=_logistic_curvature,
            targets=lambda dataset, k: signs_of(dataset)[:, None],
            fits_labels=False,
        ),
        Loss(
            "cross-entropy",
            2,
            math.inf,
            stops_at=1e-2,
            paper_step=1e-3,
            value=lambda f, y: -(y * torch.log_softmax(f, dim=1)).sum(),
            curvature=_cross_entropy_curvature,
            targets=_one_hot_targets,
            fits_labels=False,
        ),
    )
}


def loss_named(name: str) -> Loss:
    """The registered loss of that name."""
    if name not in LOSSES:
        raise unknown_name("loss", name, LOSSES)
    return LOSSES[name]
