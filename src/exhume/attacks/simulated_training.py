"""theta_T = Train(theta_0; X, Y): the recipe run again on candidate samples, and its derivative by forward mode.

Every loss here has the gradient link(f) - y in the outputs, so a candidate's target y and weight c enter as c (link(f) - y); true
samples have the weight 1. Where the first layer is dense and its change spans r < d dimensions, the samples lie in these, and
training runs in their coordinates z: the first layer is then W Q with x = Q z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.func import functional_call, jvp, vjp, vmap

from exhume.attacks.span.trained_network import input_space, learned
from exhume.linalg.blocks import slices
from exhume.linalg.pass_counter import PassCounter
from exhume.release import Release
from exhume.training_recipe import ADAM_BETAS, ADAM_EPSILON, MOMENTUM, Recipe

Parameters = dict[str, torch.Tensor]
LINKS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "square": lambda f: f,
    "logistic": torch.sigmoid,
    "cross-entropy": lambda f: torch.softmax(f, dim=1),
}
# Copies of all parameters that one tangent takes while training is differentiated.
_COPIES = 12


@dataclass(frozen=True)
class Samples:
    """Candidates for the training set, in the coordinates of the search."""

    rows: torch.Tensor  # (m, r)
    targets: torch.Tensor  # (m, k): y as it stands in link(f) - y
    weights: torch.Tensor  # (m,)

    @property
    def m(self) -> int:
        """Candidates."""
        return len(self.rows)

    def taken(self, which: torch.Tensor) -> Samples:
        """Some of the candidates."""
        return Samples(self.rows[which], self.targets[which], self.weights[which])

    def flat(self, *, free_weights: bool) -> torch.Tensor:
        """All unknowns in one vector: coordinates, targets and, where they are free, weights."""
        parts = [self.rows.flatten(), self.targets.flatten()]
        return torch.cat([*parts, self.weights] if free_weights else parts)

    def moved_to(self, flat: torch.Tensor) -> Samples:
        """The candidates that a vector like `flat` holds."""
        a, b = self.rows.numel(), self.rows.numel() + self.targets.numel()
        weights = flat[b:] if len(flat) > b else self.weights
        return Samples(flat[:a].reshape(self.rows.shape), flat[a:b].reshape(self.targets.shape), weights)


class SimulatedTraining:
    """The recipe of a release as a function of the samples, in float64."""

    def __init__(self, release: Release, *, device: torch.device | str, memory: int, passes: PassCounter) -> None:
        assert release.recipe is not None
        self.recipe: Recipe = release.recipe
        self._schedule = [(rate, some.to(device)) for rate, some in self.recipe.schedule()]
        self.passes, self._memory = passes, memory
        spec = release.network
        initial = {name: value.to(device, torch.float64) for name, value in release.initial.items()}
        trained = {name: value.to(device, torch.float64) for name, value in release.trained.items()}
        self._module = spec.module(initial)
        first = spec.first_weight
        assert first is not None
        self.basis = _basis(release, first).to(device)  # Q (d, r)
        self._inside = spec.dense_first
        if self._inside:
            initial[first], trained[first] = initial[first] @ self.basis, trained[first] @ self.basis
        self.outputs_count = release.k
        self._shape, self._link = spec.input_shape, LINKS[self.recipe.loss]
        self._first, self.begun, self.goal = first, initial, trained
        # Each layer's error is measured against how far training moved it.
        self._scale = {name: 1 / (trained[name] - initial[name]).norm().clamp(min=1e-300) for name in trained}

    @property
    def parameters(self) -> int:
        """Numbers that the released weights tell, in the coordinates of the search."""
        return sum(value.numel() for value in self.goal.values())

    @property
    def _block(self) -> int:
        """Runs of training that memory holds side by side."""
        return max(1, self._memory // (8 * _COPIES * self.parameters))

    def inputs(self, rows: torch.Tensor) -> torch.Tensor:
        """Coordinates (m, r) as inputs (m, d)."""
        return rows @ self.basis.T

    def outputs(self, rows: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        """What the network with these parameters says to rows in the coordinates of the search."""
        x = rows if self._inside else self.inputs(rows).reshape(-1, *self._shape)
        return functional_call(self._module, parameters, (x,))

    def first_outputs(self, rows: torch.Tensor, parameters: Parameters) -> torch.Tensor:
        """What the first layer says to rows, before its activation: one line per row, every unit and place."""
        seen: list[torch.Tensor] = []
        handle = self._module.get_submodule(self._first.removesuffix(".weight")).register_forward_hook(
            lambda _, __, output: seen.append(output.detach().flatten(1))
        )
        try:
            self.outputs(rows, parameters)
        finally:
            handle.remove()
        return seen[0]

    def trained_outputs(self, rows: torch.Tensor) -> torch.Tensor:
        """link(f) of the released network."""
        return self._link(self.outputs(rows, self.goal))

    def misses(self, samples: Samples) -> torch.Tensor:
        """(theta(samples) - theta_T) / ||theta_T - theta_0||, layer by layer, in one vector.

        Where batches have an order, candidate i stands in place i.
        """
        self.passes.add(1)
        return self._misses(samples)

    def _misses(self, samples: Samples) -> torch.Tensor:
        end = self._run(samples)
        return torch.cat([((end[name] - goal) * self._scale[name]).flatten() for name, goal in self.goal.items()])

    def units(self) -> torch.Tensor:
        """For each entry of `misses` the group that it is judged with: a unit of the first layer, or the entry alone."""
        groups, next_group = [], 0
        for name, goal in self.goal.items():
            if name == self._first:
                groups.append(torch.arange(len(goal), device=goal.device).repeat_interleave(goal[0].numel()) + next_group)
                next_group += len(goal)
            else:
                groups.append(torch.arange(goal.numel(), device=goal.device) + next_group)
                next_group += goal.numel()
        return torch.cat(groups)

    def derivative(self, samples: Samples, *, free_weights: bool, ordered: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
        """`misses` (e,) and its derivative (e, u) in the unknowns of `Samples.flat`.

        Forward mode, a block of unknowns at a time: nothing of the course of training is kept, whatever its length.
        """
        J = self._columns(lambda u: self._misses(samples.moved_to(u)), samples.flat(free_weights=free_weights))
        return self.misses(samples), J

    def _columns(self, function: Callable[[torch.Tensor], torch.Tensor], at: torch.Tensor) -> torch.Tensor:
        everyone = torch.eye(len(at), dtype=at.dtype, device=at.device)
        self.passes.add(len(at))

        def along(tangent: torch.Tensor) -> torch.Tensor:
            return jvp(function, (at,), (tangent,))[1]

        return torch.cat([vmap(along, out_dims=1)(everyone[some]) for some in slices(len(at), self._block)], dim=1)

    def losses_in_orders(self, samples: Samples, orders: torch.Tensor) -> torch.Tensor:
        """||misses||^2 with the candidates in each of these orders (b, n) -> (b,)."""
        self.passes.add(len(orders))
        one = vmap(lambda order: self._misses(samples.taken(order)).square().sum())
        return torch.cat([one(orders[some]) for some in slices(len(orders), self._block)])

    def _run(self, samples: Samples) -> Parameters:
        """The parameters after training on these candidates."""
        recipe, now = self.recipe, _OptimizerState(self.begun)
        for rate, some in self._schedule:
            batch = samples if recipe.whole else samples.taken(some)
            share = 1.0 if recipe.optimizer == "gd" else 1 / len(some)
            now = _step(now, self._gradient(now.parameters, batch, share), rate, recipe)
        return now.parameters

    def _gradient(self, parameters: Parameters, batch: Samples, share: float) -> Parameters:
        pulled = vjp(lambda p: self.outputs(batch.rows, p), parameters)
        error = share * batch.weights[:, None] * (self._link(pulled[0]) - batch.targets)
        return dict(pulled[1](error)[0])


def _basis(release: Release, first: str) -> torch.Tensor:
    """Q (d, r) of the inputs that the first layer's change allows; Adam divides gradients, so its change allows all of them."""
    assert release.recipe is not None
    if release.recipe.optimizer == "adam":
        return torch.eye(release.d, dtype=torch.float64)
    return input_space(learned(release).change(first), release.network).to(torch.float64)


@dataclass(frozen=True)
class _OptimizerState:
    parameters: Parameters
    first: Parameters | None = None  # momentum's velocity or Adam's mean of gradients
    second: Parameters | None = None  # Adam's mean of squares
    step: int = 0


def _step(now: _OptimizerState, gradient: Parameters, rate: float, recipe: Recipe) -> _OptimizerState:
    """One step of the recipe's rule, as torch.optim takes it."""
    if recipe.decay:
        gradient = {name: g + recipe.decay * now.parameters[name] for name, g in gradient.items()}
    if recipe.optimizer == "momentum":
        velocity = gradient if now.first is None else {name: MOMENTUM * now.first[name] + g for name, g in gradient.items()}
        return replace(now, parameters=_moved(now.parameters, velocity, rate), first=velocity)
    if recipe.optimizer == "adam":
        return _adam_step(now, gradient, rate)
    return replace(now, parameters=_moved(now.parameters, gradient, rate))


def _adam_step(now: _OptimizerState, gradient: Parameters, rate: float) -> _OptimizerState:
    (one, two), step = ADAM_BETAS, now.step + 1
    nothing = {name: torch.zeros_like(g) for name, g in gradient.items()}
    mean = {name: one * (now.first or nothing)[name] + (1 - one) * g for name, g in gradient.items()}
    square = {name: two * (now.second or nothing)[name] + (1 - two) * g * g for name, g in gradient.items()}
    direction = {
        # The derivative of a root at zero is infinite: the tiny number keeps it finite and is far below rounding elsewhere.
        name: (mean[name] / (1 - one**step)) / ((square[name] / (1 - two**step) + 1e-60).sqrt() + ADAM_EPSILON)
        for name in gradient
    }
    return _OptimizerState(_moved(now.parameters, direction, rate), mean, square, step)


def _moved(parameters: Parameters, direction: Parameters, rate: float) -> Parameters:
    return {name: value - rate * direction[name] for name, value in parameters.items()}
