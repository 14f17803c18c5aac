"""The threat model, once: what an attacker is assumed to know, and the facts that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from exhume.errors import ExhumeError

INITIAL_WEIGHTS = ("all", "last", "none")

Weights = TypeVar("Weights")


@dataclass(frozen=True)
class Facts:
    """What is known of the training besides weights and features; None means unknown."""

    n: int | None = None  # number of training samples
    input_norm: float | None = None  # common norm of all inputs
    label_size: float | None = None  # |y|, where every label has the same size (1.0 for labels -1/+1)
    ridge: float | None = 0.0  # the lambda of training
    penalty: float | None = None  # n lambda, where that is known as a whole (scikit-learn's alpha)
    offset: float = 0.0  # the released intercept: f(x) = theta phi(x) + offset
    one_hot: bool = False  # targets are one-hot and fitted exactly
    pruned: bool = False  # weights that are zero belong to features that were removed
    input_range: tuple[float, float] | None = None  # least and largest value that an input can have (pixels)

    def __post_init__(self) -> None:
        for name in ("n", "input_norm", "label_size"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ExhumeError(f"the release's fact {name!r} must be positive, got {value}.")


@dataclass(frozen=True)
class Knowledge:
    """What the attacker is assumed to know besides the trained weights and the model's graph.

    Victims, trials, audits and the switches of the command line all derive from these fields.

    >>> told = Knowledge(n=True, labels=False).facts(Facts(n=20, label_size=1.0))
    >>> told.n, told.label_size
    (20, None)
    """

    init: str = "all"  # weights before training: "all", "last" (of the last layer only) or "none"
    n: bool = False  # the number of training samples
    statistics: bool = True  # the inputs' common norm, their mean and spread, and with these the range of a pixel
    labels: bool = True  # that targets are one-hot or of one size, and fitted
    optimizer: bool = False  # the optimizer's state, as training checkpoints hold it
    recipe: bool = False  # how training went: loss, optimizer, step sizes, batches and their order, and with these n

    def __post_init__(self) -> None:
        if self.init not in INITIAL_WEIGHTS:
            raise ExhumeError(f"--know-init must be one of {', '.join(INITIAL_WEIGHTS)}, got {self.init!r}.")

    def facts(self, true: Facts) -> Facts:
        """Of the true facts those that this attacker knows."""
        known = true if self.n else replace(true, n=None)
        known = known if self.statistics else replace(known, input_norm=None, input_range=None)
        return known if self.labels else replace(known, label_size=None, one_hot=False)

    def initial(self, start: Mapping[str, Weights], head: str) -> dict[str, Weights]:
        """Of the weights before training those that this attacker knows; `head` is the name of the last layer's."""
        if self.init == "all":
            return dict(start)
        return {head: start[head]} if self.init == "last" and start else {}
