"""Ordinary training: mini-batches in random order, one of torch's optimizers, the mean loss of a batch.

To add an optimizer: an entry in OPTIMIZERS.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from exhume.errors import ExhumeError, unknown_name
from exhume.parallel.threads import at_most
from exhume.storage.checkpoint import Checkpoint
from exhume.training_recipe import ADAM_BETAS, ADAM_EPSILON, MOMENTUM, batches
from exhume.victims.interface import TrainingReport
from exhume.victims.losses import Loss

Parameters = dict[str, torch.Tensor]

# Epochs where none are named.
_EPOCHS = 100
# From this many parameters on a second thread pays.
_MANY_PARAMETERS = 1_000_000
# Inner steps of one call of L-BFGS.
_INNER = 20


@dataclass(frozen=True)
class OptimizerKind:
    """One of torch's optimizers."""

    about: str
    default_rate: float
    make: Callable[[list[torch.Tensor], float, float], torch.optim.Optimizer]  # parameters, step size, weight decay
    whole: bool = False  # every step sees all samples


OPTIMIZERS: dict[str, OptimizerKind] = {
    "sgd": OptimizerKind("plain steps", 0.05, lambda p, lr, decay: torch.optim.SGD(p, lr=lr, weight_decay=decay)),
    "momentum": OptimizerKind(
        f"steps with a momentum of {MOMENTUM}",
        0.005,
        lambda p, lr, decay: torch.optim.SGD(p, lr=lr, momentum=MOMENTUM, weight_decay=decay),
    ),
    "adam": OptimizerKind(
        "Adam",
        0.001,
        lambda p, lr, decay: torch.optim.Adam(p, lr=lr, betas=ADAM_BETAS, eps=ADAM_EPSILON, weight_decay=decay),
    ),
    "lbfgs": OptimizerKind(
        "L-BFGS with a strong Wolfe line search, all samples at once",
        1.0,
        lambda p, lr, decay: torch.optim.LBFGS(p, lr=lr, max_iter=_INNER, line_search_fn="strong_wolfe"),
        whole=True,
    ),
}


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    optimizer: str
    loss: Loss
    batch: int | None = None  # samples per step; None: all
    rate: float | None = None  # step size; None: the optimizer's own
    epochs: int | None = None
    decay: float = 0.0  # lambda of lambda ||theta||^2 / 2, as torch's weight_decay
    stop_at: float | None = None  # mean loss of an epoch that is enough
    seed: int = 0  # of the order of samples

    def __post_init__(self) -> None:
        kind = self.kind
        for name, value in (("batch", self.batch), ("lr", self.rate), ("epochs", self.epochs)):
            if value is not None and not 0 < value < float("inf"):
                raise ExhumeError(f"--{name} must be positive, got {value}.")
        if kind.whole and self.batch is not None:
            raise ExhumeError(f"{self.optimizer} takes all samples at once. Leave --batch out.")
        if kind.whole and self.decay:
            raise ExhumeError(f"{self.optimizer} has no weight decay here. Use --optimizer sgd, momentum or adam.")

    @property
    def step_size(self) -> float:
        """As given, or the optimizer's own."""
        return self.kind.default_rate if self.rate is None else self.rate

    @property
    def kind(self) -> OptimizerKind:
        """The optimizer."""
        if self.optimizer not in OPTIMIZERS:
            raise unknown_name("optimizer", self.optimizer, ("gd", *OPTIMIZERS))
        return OPTIMIZERS[self.optimizer]


@dataclass(frozen=True)
class OrdinaryState:
    """The parameters and the optimizer's own numbers after some epochs."""

    parameters: Parameters
    buffers: Parameters  # "exp_avg/first.weight" and the like
    epoch: int = 0


def train_ordinarily(
    module: nn.Module,
    start: Parameters,
    X: torch.Tensor,
    targets: torch.Tensor,
    training: Training,
    *,
    report: TrainingReport,
    keeper: Checkpoint,
) -> tuple[OrdinaryState, float]:
    """Train from `start`; the state at the end and the mean loss on all samples.

    L-BFGS has a memory that no checkpoint keeps: interrupted, it starts again.
    """
    resumed = keeper.load({"training": OrdinaryState}, X.device)
    now = OrdinaryState(start, {}) if resumed is None else resumed["training"]
    named: dict[str, torch.Tensor] = {name: nn.Parameter(value.clone()) for name, value in now.parameters.items()}
    kind = training.kind
    optimizer = kind.make(list(named.values()), training.step_size, training.decay)
    _restore(optimizer, named, now.buffers)

    def mean_loss(some: torch.Tensor | slice) -> torch.Tensor:
        output = torch.func.functional_call(module, named, (X[some],))
        return training.loss.value(output, targets[some]) / len(output)

    epochs = training.epochs or _EPOCHS
    small = sum(p.numel() for p in named.values()) < _MANY_PARAMETERS
    for epoch in range(now.epoch, epochs):
        total = 0.0
        with at_most(1) if small else contextlib.nullcontext():
            for some in batches(len(X), training.batch, training.seed, epoch):
                total += _step(optimizer, mean_loss, some) * len(some)
        mean = total / len(X)
        if not mean < float("inf"):
            raise ExhumeError("training diverged. Lower --lr or check the data's scale.")
        now = OrdinaryState({name: p.detach().clone() for name, p in named.items()}, _buffers(optimizer, named), epoch + 1)
        if not kind.whole:
            keeper.save({"training": now})
        report(epoch + 1, mean)
        if training.stop_at is not None and mean <= training.stop_at:
            break
    with torch.no_grad():
        loss = float(mean_loss(slice(None)))
    if not loss < float("inf"):
        raise ExhumeError("training diverged. Lower --lr or check the data's scale.")
    return now, loss


def _step(optimizer: torch.optim.Optimizer, mean_loss: Callable[[torch.Tensor], torch.Tensor], some: torch.Tensor) -> float:
    def closure() -> float:
        optimizer.zero_grad()
        loss = mean_loss(some)
        loss.backward()
        return loss.detach().item()

    return float(optimizer.step(closure) or 0.0)


def _buffers(optimizer: torch.optim.Optimizer, named: dict[str, torch.Tensor]) -> Parameters:
    """The optimizer's tensors as "kind/parameter"."""
    return {
        f"{kind}/{name}": value.detach().clone().reshape(-1) if value.ndim == 0 else value.detach().clone()
        for name, parameter in named.items()
        for kind, value in optimizer.state[parameter].items()
        if isinstance(value, torch.Tensor) and value.shape in (parameter.shape, torch.Size([]))
    }


def _restore(optimizer: torch.optim.Optimizer, named: dict[str, torch.Tensor], buffers: Parameters) -> None:
    for key, value in buffers.items():
        kind, _, name = key.partition("/")
        parameter = named[name]
        optimizer.state[parameter][kind] = value.clone() if value.shape == parameter.shape else value.reshape(()).clone()
