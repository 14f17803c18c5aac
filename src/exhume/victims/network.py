"""Networks: trained to interpolation by full-batch gradient descent with a step that the tangent kernel allows, or ordinarily."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call, jvp, vjp

from exhume.architectures import NetworkSpec, architecture, describe_network, initial_parameters
from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.knowledge import Facts, Knowledge
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.linalg.numerical_rank import rank_by_gap, spectrum_of
from exhume.release import Release
from exhume.storage.checkpoint import Checkpoint
from exhume.training_recipe import RULES, Recipe
from exhume.victims.interface import Trained, TrainingReport, Victim, ignore_training, without_duplicates
from exhume.victims.losses import Loss, loss_named
from exhume.victims.optimizers import Training, train_ordinarily
from exhume.victims.pruning import check_prune, prune_by_magnitude

Parameters = dict[str, torch.Tensor]
# Steps of Appendix D's own schedule.
_PAPER_COUNT = 1_000_000
_POWER_ROUNDS = 12
# Share of the largest stable step 2 / (lambda_max curvature).
_CAUTION = 0.5
# Where the loss flattens as labels are fitted the step follows, and the kernel is measured anew after this many steps.
_MEASURE_EVERY = 100
_REPORT_EVERY = 50
# Singular values of the first layer's change that a row of the lab keeps.
SPECTRUM = 16


@dataclass(frozen=True)
class TrainingState:
    """The parameters after some steps of descent."""

    parameters: Parameters
    step: int = 0
    best: float = float("inf")  # the smallest mean loss so far
    safe_step: float = 0.0  # a step that the tangent kernel allows, before the loss flattens
    steps: tuple[int, ...] = ()  # so many steps were taken ...
    rates: tuple[float, ...] = ()  # ... of each of these sizes, in turn

    def after(self, step_size: float, *, best: float, safe_step: float) -> TrainingState:
        """The state one step of that size later; the parameters move in place."""
        again = bool(self.rates) and step_size == self.rates[-1]
        steps = (*self.steps[:-1], self.steps[-1] + 1) if again else (*self.steps, 1)
        rates = self.rates if again else (*self.rates, step_size)
        return replace(self, step=self.step + 1, best=best, safe_step=safe_step, steps=steps, rates=rates)


@dataclass(frozen=True)
class NetworkVictim(Victim):
    """A network of Section 5.2 or Appendix D/E, trained on all of its data at once, or any network trained ordinarily."""

    architecture: str
    last_layer: int  # p_L: parameters of the last layer, all outputs together
    k: int = 1
    widths: tuple[int, ...] = ()  # mlp: units of each hidden layer; none: one layer by p_L
    bias: bool = False  # mlp: all layers have biases
    activation: str = "relu"  # mlp
    optimizer: str = "gd"  # "gd": all samples, summed loss; others: victims/optimizers.py
    batch: int | None = None
    lr: float | None = None  # None: gd finds a step by itself
    epochs: int | None = None
    loss: str = "square"
    weight_decay: float = 0.0
    prune: float = 0.0  # share of the last layer's features that magnitude pruning removes after training
    init_scale: float = 1.0  # factor on the first layer's initial weights; small ones make training rich (Haim et al.)
    train_to: float | None = None  # mean loss at which training stops; None: that of the loss
    schedule: str = "fast"  # "fast": the largest safe step; "paper": Appendix D's step size and 10^6 steps
    max_steps: int = 20_000
    seed: int = 0
    dtype: torch.dtype = torch.float64
    knowledge: Knowledge = Knowledge()

    def _check(self) -> None:
        loss_named(self.loss).check(self.k)
        if self.last_layer < 1:
            raise ExhumeError(f"the last layer needs at least 1 parameter, got {self.last_layer}.")
        if not 0 <= self.weight_decay < float("inf"):
            raise ExhumeError(f"weight decay must not be negative or infinite, got {self.weight_decay}.")
        check_prune(self.prune)
        if any(width < 1 for width in self.widths):
            raise ExhumeError(f"--widths must be positive, got {','.join(map(str, self.widths))}.")
        if self.optimizer == "gd" and self.batch is not None:
            raise ExhumeError("gd takes all samples at once. Leave --batch out, or use --optimizer sgd.")
        if self.optimizer != "gd" and self.schedule != "fast":
            raise ExhumeError("--paper-schedule is one of gd. Leave out --optimizer.")
        for name, value in (("lr", self.lr), ("epochs", self.epochs)):
            if value is not None and not 0 < value < float("inf"):
                raise ExhumeError(f"--{name} must be positive, got {value}.")
        if not 0 < self.init_scale < float("inf"):
            raise ExhumeError(f"--init-scale must be positive, got {self.init_scale}.")
        if self.train_to is not None and not 0 < self.train_to < float("inf"):
            raise ExhumeError(f"--train-to must be a positive loss, got {self.train_to}.")

    def train(
        self,
        dataset: Dataset,
        *,
        device: str = "cpu",
        memory: int = DEFAULT_BUDGET,
        report: TrainingReport = ignore_training,
        checkpoint: Path | None = None,
    ) -> Trained:
        """Train to interpolation, by Appendix D's schedule, or for some epochs of an ordinary optimizer."""
        self._check()
        spec = describe_network(
            self.architecture,
            dataset.shape,
            outputs=self.k,
            last_layer=self.last_layer,
            widths=self.widths,
            bias=self.bias,
            activation=self.activation,
        )
        start = {k: v.to(device) for k, v in initial_parameters(spec, seed=self.seed, dtype=self.dtype).items()}
        start["first.weight"] = start["first.weight"] * self.init_scale
        module = spec.module(start)
        X = dataset.rows.to(device, self.dtype).reshape(dataset.n, *dataset.shape)
        targets = loss_named(self.loss).targets(dataset, self.k).to(device, self.dtype)

        def outputs(parameters: Parameters) -> torch.Tensor:
            return functional_call(module, parameters, (X,))

        digest = hashlib.sha256(X.cpu().contiguous().numpy().tobytes() + targets.cpu().contiguous().numpy().tobytes()).hexdigest()
        keeper = Checkpoint(checkpoint, {"victim": {k: str(v) for k, v in vars(self).items()}, "data": digest})
        buffers: Parameters = {}
        recipe: Recipe | None
        try:
            if self.optimizer == "gd":
                descent, loss = _descend(self, outputs, targets, start, report, keeper)
                trained, steps = descent.parameters, descent.step
                recipe = Recipe(dataset.n, self.loss, "gd", descent.steps, descent.rates, decay=self.weight_decay)
            else:
                end, loss = train_ordinarily(module, start, X, targets, self._training(), report=report, keeper=keeper)
                trained, buffers, steps = end.parameters, end.buffers, end.epoch
                recipe = self._recipe(dataset.n, end.epoch)
        except KeyboardInterrupt:
            keeper.flush()
            raise
        keeper.clear()
        course = _course(module, X, start, trained) | {"train_steps": steps}
        release = self._release(spec, dataset, start, trained, buffers)
        release = replace(release, recipe=recipe if self.knowledge.recipe else None)
        return Trained(release, without_duplicates(dataset), loss, course)

    def _training(self) -> Training:
        return Training(
            self.optimizer,
            loss_named(self.loss),
            batch=self.batch,
            rate=self.lr,
            epochs=self.epochs,
            decay=self.weight_decay,
            stop_at=self.train_to,
            seed=self.seed,
        )

    def _recipe(self, n: int, epochs: int) -> Recipe | None:
        """How ordinary training went; L-BFGS cannot be told in steps."""
        if self.optimizer not in RULES:
            return None
        size = min(n, self.batch or n)
        steps, rate = epochs * math.ceil(n / size), self._training().step_size
        return Recipe(n, self.loss, self.optimizer, (steps,), (rate,), self.batch, self.seed, self.weight_decay)

    def _release(self, spec: NetworkSpec, dataset: Dataset, start: Parameters, trained: Parameters, buffers: Parameters) -> Release:
        head = spec.head_weight
        # Only descent to interpolation is sure to end at the labels themselves.
        fits = loss_named(self.loss).fits_labels and self.optimizer == "gd" and self.epochs is None
        after = {name: value.cpu() for name, value in trained.items()}
        if self.prune:
            after[head] = prune_by_magnitude(after[head], self.prune)
        known = {name: value.cpu() for name, value in self.knowledge.initial(start, head).items()}
        true = Facts(
            n=dataset.n,
            input_norm=dataset.input_norm,
            input_range=dataset.input_range,
            label_size=dataset.label_size if fits and self.k == 1 else None,
            ridge=self.weight_decay,
            one_hot=fits and self.k > 1,
            pruned=self.prune > 0,
        )
        change = after[head] - known[head] if head in known else after[head]
        state = {name: value.cpu() for name, value in buffers.items()} if self.knowledge.optimizer else {}
        return Release(change, spec, self.knowledge.facts(true), after, known, state)


def _descend(
    victim: NetworkVictim,
    outputs: Callable[[Parameters], torch.Tensor],
    targets: torch.Tensor,
    start: Parameters,
    report: TrainingReport,
    keeper: Checkpoint,
) -> tuple[TrainingState, float]:
    """theta <- (1 - eta lambda) theta - eta gradient, all samples at once: the change stays in the features' span."""
    kind, limit, target = loss_named(victim.loss), victim.epochs or victim.max_steps, victim.train_to or 0.0
    if victim.schedule == "paper":
        limit, target = _PAPER_COUNT, 0.0
    elif victim.epochs is None and victim.train_to is None:
        target = kind.stops_at
        if kind.fits_labels and targets.dtype == torch.float64:
            target = min(target, architecture(victim.architecture).stops_at)
    fixed = victim.schedule == "paper" or victim.lr is not None  # the step size
    resumed = keeper.load({"training": TrainingState}, next(iter(start.values())).device)
    now = TrainingState(start, safe_step=victim.lr or kind.paper_step) if resumed is None else resumed["training"]
    parameters = {name: value.clone().requires_grad_() for name, value in now.parameters.items()}
    while True:
        output = outputs(parameters)
        loss = kind.value(output, targets)
        mean = float(loss.detach()) / len(targets)
        if now.step >= limit or mean <= target or not mean < float("inf"):
            break
        safe = now.safe_step
        if not fixed and _time_to_measure(kind, now.step):
            safe = safe_step(outputs, {name: value.detach() for name, value in parameters.items()}, targets)
        if not fixed and mean > 2 * now.best:  # the kernel has grown: go on with a smaller step
            safe /= 2
        step_size = safe if fixed else safe / kind.curvature(output.detach(), targets)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        with torch.no_grad():
            for value, gradient in zip(parameters.values(), gradients, strict=True):
                value.mul_(1 - step_size * victim.weight_decay).sub_(gradient, alpha=step_size)
        now = now.after(step_size, best=min(now.best, mean), safe_step=safe)
        if now.step % _REPORT_EVERY == 0:
            keeper.save({"training": replace(now, parameters={k: v.detach().clone() for k, v in parameters.items()})})
            report(now.step, mean)
    if not mean < float("inf"):
        raise ExhumeError("training diverged. Lower --lr or check the data's scale.")
    return replace(now, parameters={name: value.detach() for name, value in parameters.items()}), mean


def _time_to_measure(loss: Loss, step: int) -> bool:
    """A loss that fits labels keeps the kernel of its start; the others go far: measure at 0, 1, 2, 4, 8 and so on."""
    return step == 0 or (not loss.fits_labels and (step % _MEASURE_EVERY == 0 or step & (step - 1) == 0))


def safe_step(outputs: Callable[[Parameters], torch.Tensor], start: Parameters, targets: torch.Tensor) -> float:
    """A share of 2 / lambda_max of the tangent kernel J J^T, found by power iteration with one vjp and one jvp per round."""
    vector = torch.randn(targets.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(targets)
    size = 1.0
    for _ in range(_POWER_ROUNDS):
        vector = vector / vector.norm()
        (back,) = vjp(outputs, start)[1](vector)
        vector = jvp(outputs, (start,), (back,))[1].detach()
        size = float(vector.norm())
    return _CAUTION * 2 / size


def _course(module: torch.nn.Module, X: torch.Tensor, start: Parameters, trained: Parameters) -> dict[str, Any]:
    """How far training moved the features and the first layer, and the spectrum of that move."""
    body = {name: value for name, value in start.items() if name != "head.weight"}
    seen: list[torch.Tensor] = []
    handle = module.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))  # type: ignore[union-attr]
    with torch.no_grad():
        functional_call(module, start, (X,))
        functional_call(module, trained, (X,))
    handle.remove()
    change = {name: trained[name] - value for name, value in body.items()}
    first = change["first.weight"].flatten(1).double()
    dense = start["first.weight"].ndim == 2
    if dense and "first.bias" in change:
        first = torch.cat([first, change["first.bias"].double()[:, None]], dim=1)
    spectrum = spectrum_of(first)
    rank = rank_by_gap(spectrum, torch.finfo(X.dtype).eps) if dense else None
    return ({"hidden_per_sample": len(first) / len(X), "first_layer_rank": rank} if dense else {}) | {
        "feature_drift": float((seen[1] - seen[0]).norm() / seen[0].norm()),
        "first_layer_change": float(first.norm() / start["first.weight"].double().norm()),
        "first_layer_spectrum": tuple((spectrum / spectrum[0].clamp(min=1e-300))[:SPECTRUM].tolist()),
    }
