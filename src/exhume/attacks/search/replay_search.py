"""Samples whose training ends at the released weights: Gauss-Newton on theta(X, Y) = theta_T, through all of training.

Starts are random. One with n candidates is quick but may stick in a local minimum. One with half as many again, each with a weight
of its own, has ways around these: where the loss stalls, the candidate that matters least leaves; the last n get the weight 1.
Where batches have an order there are n places, and no crowd: candidates change places where they are stuck.

A ReLU that switches makes theta_T jump, so most of a first layer's units may fit while others cannot yet: units count by
1 / (1 + (miss / typical miss)^2), and those whose switches are still wrong are left out until they are right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import torch

from exhume.attacks.simulated_training import Samples, SimulatedTraining
from exhume.linalg import streams
from exhume.linalg.levenberg import next_damping


class Stage(Enum):
    """What a step does; the value is what a person reads."""

    CROWD = "crowd"  # candidates of free weights, at first more than there are samples
    EXACT = "replay"  # n candidates of weight one


@dataclass(frozen=True)
class ReplaySettings:
    """Chosen on GELU, d = 30, n = 8, 60 units, seeds 0 and 1."""

    crowd: float = 1.5
    """Candidates of a random start, as a multiple of n."""

    tries: int = 8
    """Dampings that a step may try."""

    gain: float = 1e-3
    """A step that lowers the loss by a smaller share has stalled, ..."""

    patience: int = 6
    """... and after so many of these in a row the search is stuck."""

    crowd_gain: float = 1e-2
    crowd_patience: int = 4
    """The same while there are too many candidates."""

    moves: int = 3
    """Times that candidates of one attempt may change places."""

    shuffles: int = 6
    """Random orders from which places are sought, besides the one in hand."""

    most_steps: int = 150
    """Steps of one stage with one number of candidates."""

    damping: float = 1e-2
    """Of the first step."""

    floor: float = 1e-26
    """A loss that leaves nothing to gain in float64."""


@dataclass(frozen=True)
class ReplayState:
    """Candidates after some steps."""

    samples: Samples
    loss: float
    stage: Stage
    damping: float
    attempt: int = 0
    step: int = 0
    stage_steps: int = 0
    stalls: int = 0
    stuck: bool = False
    moves: int = 0  # times that candidates have changed places
    best: Samples | None = None  # of the attempts before this one
    best_loss: float = math.inf


class ReplaySearch:
    """The search, one Gauss-Newton step at a time."""

    def __init__(
        self,
        training: SimulatedTraining,
        *,
        norm: float,
        kinks: bool,
        seed: int,
        starts: int,
        enough: float,  # a loss that rounding explains
        first: torch.Tensor | None = None,  # (n, r): rows to start from
        settings: ReplaySettings | None = None,
    ) -> None:
        self.training, self._norm, self._seed = training, norm, seed
        self._starts, self._enough, self._first = starts, enough, first
        self.settings = settings or ReplaySettings()
        self.groups = training.units() if kinks else None  # of equations that are right or wrong together

    def begin(self) -> ReplayState:
        """The first attempt: rows that were given, or random ones."""
        if self._first is not None:
            targets = self._likely_targets(self._first)
            given = Samples(self._first, targets, torch.ones_like(targets[:, 0]))
            return self._entered(self._placed(given), Stage.EXACT, attempt=0, step=0)
        return self._random_start(0, 0)

    def advance(self, state: ReplayState) -> ReplayState:
        """One step; where the last one was the last of its stage, a candidate leaves or a new attempt begins."""
        if state.stuck:
            return self._next_stage(state)
        rules, free = self.settings, state.stage is Stage.CROWD
        misses, J = self.training.derivative(state.samples, free_weights=free)
        cost = CauchyCost(self.groups, misses)
        weighted = J * cost.counts(misses)[:, None]
        curvature, slope = weighted.T @ J, weighted.T @ misses
        before, damping = float(cost(misses)), state.damping
        flat = state.samples.flat(free_weights=free)
        for _ in range(rules.tries):
            damped = curvature + torch.diag(damping * curvature.diagonal() + 1e-14 * curvature.diagonal().max())
            move, failed = torch.linalg.solve_ex(damped, slope)
            moved = state.samples.moved_to(flat - move)
            after = self.training.misses(moved) if not failed.item() else misses * math.nan
            gained = 1 - float(cost(after)) / before
            if gained > 0:  # not where training diverged
                stalled = gained < (rules.crowd_gain if free else rules.gain)
                stalls = state.stalls + 1 if stalled else 0
                loss, steps = float(after.square().sum()), state.stage_steps + 1
                patience = rules.crowd_patience if free else rules.patience
                stuck = stalls > patience or loss < rules.floor or steps >= rules.most_steps
                return replace(
                    state,
                    samples=moved,
                    loss=loss,
                    damping=next_damping(damping, better=True),
                    step=state.step + 1,
                    stage_steps=steps,
                    stalls=stalls,
                    stuck=stuck,
                )
            damping = next_damping(damping, better=False)
        return replace(state, step=state.step + 1, stuck=True)

    def done(self, state: ReplayState) -> bool:
        """Whether n candidates of weight one have settled, at zero or for the last time."""
        settled = state.stuck and state.stage is Stage.EXACT
        movable = not self.training.recipe.whole and state.moves < self.settings.moves
        return settled and (self.fits(state.loss) or (state.attempt + 1 >= self._starts and not movable))

    def fits(self, loss: float) -> bool:
        """Whether another attempt would be in vain: the weights are met to rounding."""
        return loss < self._enough

    def _next_stage(self, state: ReplayState) -> ReplayState:
        n = self.training.recipe.n
        if state.stage is Stage.CROWD and state.samples.m > n:
            weak = removal_costs(self.training, state.samples).argmin()
            fewer = state.samples.taken(torch.arange(state.samples.m, device=weak.device) != weak)
            return self._entered(fewer, Stage.CROWD, attempt=state.attempt, step=state.step + 1, before=state)
        if state.stage is Stage.CROWD:
            exact = replace(state.samples, weights=torch.ones_like(state.samples.weights))
            return self._entered(exact, Stage.EXACT, attempt=state.attempt, step=state.step + 1, before=state)
        if not self.training.recipe.whole and state.moves < self.settings.moves:
            moved = self._placed(state.samples)
            if not torch.equal(moved.rows, state.samples.rows):
                now = self._entered(moved, Stage.EXACT, attempt=state.attempt, step=state.step + 1, before=state)
                return replace(now, moves=state.moves + 1)
        return self._random_start(state.attempt + 1, state.step + 1, before=state)

    def _placed(self, samples: Samples) -> Samples:
        """Each candidate where the order of batches wants it."""
        if self.training.recipe.whole:
            return samples
        generator = streams.generator(self._seed, "places")
        shuffled = [torch.randperm(samples.m, generator=generator) for _ in range(self.settings.shuffles)]
        starts = [torch.arange(samples.m), *shuffled]
        ends: list[tuple[float, torch.Tensor]] = []
        for start in starts:
            ends.append(best_places(self.training, samples, start.to(samples.rows.device)))
            if self.fits(ends[-1][0]):
                break
        return samples.taken(min(ends, key=lambda end: end[0])[1])

    def _entered(
        self, samples: Samples, stage: Stage, *, attempt: int, step: int, before: ReplayState | None = None
    ) -> ReplayState:
        loss = float(self.training.misses(samples).square().sum())
        now = ReplayState(samples, loss, stage, self.settings.damping, attempt, step, stuck=not loss < math.inf)
        if before is None:
            return now
        ended = before.stage is Stage.EXACT and before.loss < before.best_loss
        best, least = (before.samples, before.loss) if ended else (before.best, before.best_loss)
        return replace(now, best=best, best_loss=least)

    def _random_start(self, attempt: int, step: int, before: ReplayState | None = None) -> ReplayState:
        """Random directions at the norm that is known or likely, with random labels."""
        recipe = self.training.recipe
        m = math.ceil(self.settings.crowd * recipe.n) if attempt % 2 and recipe.whole else recipe.n
        r, k = self.training.basis.shape[1], self.training.outputs_count
        generator = streams.generator(self._seed, "replay", attempt)
        rows = torch.randn(m, r, generator=generator, dtype=torch.float64).to(self.training.basis)
        rows = rows * (self._norm / rows.norm(dim=1, keepdim=True))
        classes = torch.randint(max(2, k), (m,), generator=generator)
        targets = torch.nn.functional.one_hot(classes, max(2, k)).to(rows)
        if k == 1:
            targets = targets[:, :1] if recipe.loss == "logistic" else 2 * targets[:, :1] - 1
        weights = torch.full((m,), recipe.n / m).to(rows)
        stage = Stage.CROWD if m > recipe.n else Stage.EXACT
        return self._entered(Samples(rows, targets, weights), stage, attempt=attempt, step=step, before=before)

    def _likely_targets(self, rows: torch.Tensor) -> torch.Tensor:
        """What the trained network says to its own samples is near their targets; of classes the likeliest."""
        said = self.training.trained_outputs(rows).detach()
        if self.training.recipe.loss == "square":
            return said
        if said.shape[1] == 1:
            return (said > 0.5).to(said)
        return torch.nn.functional.one_hot(said.argmax(1), said.shape[1]).to(said)


class CauchyCost:
    """sum_g s^2 log(1 + |miss_g|^2 / s^2) over groups of equations, s the median |miss_g|; the sum of squares without groups."""

    def __init__(self, groups: torch.Tensor | None, misses: torch.Tensor) -> None:
        self._groups = groups
        if groups is not None:
            sizes = self._sizes(misses)
            moved = sizes[sizes > 0]
            self._scale = moved.median().clamp(min=1e-300) if len(moved) else sizes.new_tensor(1.0)

    def _sizes(self, misses: torch.Tensor) -> torch.Tensor:
        """Squared miss of each group."""
        assert self._groups is not None
        return misses.new_zeros(int(self._groups[-1]) + 1).index_add(0, self._groups, misses.square())

    def counts(self, misses: torch.Tensor) -> torch.Tensor:
        """The weight of each equation in the least squares of one step."""
        if self._groups is None:
            return torch.ones_like(misses)
        return (1 / (1 + self._sizes(misses) / self._scale))[self._groups]

    def __call__(self, misses: torch.Tensor) -> torch.Tensor:
        """The sum."""
        if self._groups is None:
            return misses.square().sum()
        return (self._scale * torch.log1p(self._sizes(misses) / self._scale)).sum()


def best_places(training: SimulatedTraining, samples: Samples, order: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The loss and the order (n,) at which no two candidates gain by changing places, from a first order."""
    pairs = torch.combinations(torch.arange(samples.m, device=order.device))
    which, loss = torch.arange(len(pairs), device=order.device), float(training.losses_in_orders(samples, order[None]))
    while len(pairs):
        swapped = order.repeat(len(pairs), 1)
        swapped[which[:, None], pairs] = order[pairs.flip(1)]
        losses = training.losses_in_orders(samples, swapped)
        best = int(losses.argmin())
        if not losses[best] < loss:
            break
        order, loss = swapped[best], float(losses[best])
    return loss, order


def removal_costs(training: SimulatedTraining, samples: Samples) -> torch.Tensor:
    """The loss that taking each candidate away would cost, all others following, to second order: c^2 / (G^-1)_cc."""
    _, J = training.derivative(samples, free_weights=True)
    G = J.T @ J
    inverse = torch.linalg.inv(G + torch.diag(1e-10 * G.diagonal() + 1e-14 * G.diagonal().max()))
    return samples.weights.square() / inverse.diagonal()[-samples.m :]
