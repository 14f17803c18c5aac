"""Recipe: how a model was trained, in so much detail that training can be run again. Publications and repositories often say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from exhume.errors import ExhumeError
from exhume.linalg import streams

MOMENTUM = 0.9
ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8
# Rules that `replay` can run again. L-BFGS is not among them: its line search makes steps that depend on every number before.
RULES = ("gd", "sgd", "momentum", "adam")


@dataclass(frozen=True)
class Recipe:
    """Loss, optimizer, step sizes and the order of samples; the samples themselves are what is not told.

    `gd` takes the summed loss of all samples, the others are torch's optimizers on the mean loss of a batch.

    >>> [(rate, len(some)) for rate, some in Recipe(5, "square", "sgd", (2, 1), (0.1, 0.01), batch=3).schedule()]
    [(0.1, 3), (0.1, 2), (0.01, 3)]
    """

    n: int
    loss: str
    optimizer: str
    steps: tuple[int, ...]  # so many steps ...
    rates: tuple[float, ...]  # ... of each of these sizes, in turn
    batch: int | None = None  # samples per step; None: all
    order: int = 0  # seed of the samples' order
    decay: float = 0.0  # lambda of lambda ||theta||^2 / 2

    def __post_init__(self) -> None:
        if self.n < 1 or (self.batch is not None and self.batch < 1):
            raise ExhumeError(f"a recipe needs at least one sample per step, got n = {self.n} and batch = {self.batch}.")
        sizes = all(isinstance(rate, float) and 0 < rate < float("inf") for rate in self.rates)
        counts = all(isinstance(count, int) and count > 0 for count in self.steps)
        if len(self.steps) != len(self.rates) or not (sizes and counts):
            raise ExhumeError("a recipe needs positive step sizes, and as many numbers of steps. Write the release again.")

    @property
    def whole(self) -> bool:
        """Whether every step sees all samples, so that their order does not matter."""
        return self.batch is None or self.batch >= self.n

    def schedule(self) -> Iterator[tuple[float, torch.Tensor]]:
        """Step size and samples of each step."""
        rates = (rate for count, rate in zip(self.steps, self.rates, strict=True) for _ in range(count))
        epoch = 0
        while True:
            for some in batches(self.n, self.batch, self.order, epoch):
                rate = next(rates, None)
                if rate is None:
                    return
                yield rate, some
            epoch += 1


def batches(n: int, size: int | None, seed: int, epoch: int) -> Iterator[torch.Tensor]:
    """The samples of each step of an epoch: a random order of its own, cut in pieces."""
    order = torch.randperm(n, generator=streams.generator(seed, "order", epoch))
    return iter(order.split(n if size is None else size))
