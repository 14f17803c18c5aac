"""`replay`: exact rows through all of training, where the recipe is known: theta_T = Train(theta_0; X, Y) solved for X and Y.

Nothing is linearised, so it needs no zeros, no features that stayed and no n < d: smooth activations and any depth. It starts at
the rows that `first-layer` finds, or at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from exhume.attacks.first_layer import FirstLayer
from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.interface import Attack, Proposal, Resources, Watch, ignore
from exhume.attacks.proof.certificate import judge
from exhume.attacks.run import Answer, Method, StepReport, drive, time_to_loss
from exhume.attacks.search.replay_search import CauchyCost, ReplaySearch, ReplayState, removal_costs
from exhume.attacks.simulated_training import LINKS, Samples, SimulatedTraining
from exhume.attacks.subspace import Subspace
from exhume.errors import ExhumeError
from exhume.features import activation
from exhume.linalg.pass_counter import PassCounter
from exhume.linalg.precision import precision
from exhume.release import Release
from exhume.result import Certificate, Curve, Reconstruction
from exhume.training_recipe import RULES

# Attacks whose rows can be a start.
_STARTS: dict[str, Attack] = {attack.name: attack for attack in (FirstLayer(), Subspace(), GaussNewton())}
# Equations of units that count less than this were left out, and prove nothing.
_COUNTS = 0.5


@dataclass(frozen=True)
class Replay(Attack):
    """Settings of the replay attack."""

    name: str = field(default="replay", init=False)
    about: str = field(default="Gauss-Newton through the whole of training, run again by its recipe", init=False)
    needs: str = field(default="all weights before and after training, and the recipe with n", init=False)

    start: str = "auto"  # whose rows to start from: another attack's name, "random", or "auto": first-layer where it applies
    starts: int = 8  # attempts

    def refusal(self, release: Release) -> str | None:
        """It needs the recipe and every weight before training."""
        if self.start not in ("auto", "random", *_STARTS):
            return f"replay starts from {', '.join(('auto', 'random', *_STARTS))}, got {self.start!r}."
        if not release.trained:
            return "replay runs a network's training again; random features are solved, not trained. Use --attack gauss-newton."
        if release.recipe is None:
            return "replay needs the recipe of training: step sizes, batches and their order (--know-recipe)."
        if release.recipe.optimizer not in RULES or release.recipe.loss not in LINKS:
            return f"replay knows no {release.recipe.optimizer} on the {release.recipe.loss} loss. Use --attack first-layer."
        if set(release.initial) != set(release.trained) or release.network.first_weight is None:
            return "replay needs all weights before training (--know-init all)."
        if release.facts.pruned:
            return "replay ends at the weights of training, and these were pruned since. Use --attack first-layer."
        return None

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        """Last of all: it costs the most."""
        refused = self.refusal(release)
        if refused is not None:
            return (Proposal(self, None, refused),)
        return (Proposal(self, 40, "the recipe of training is known, so training can be run again on candidates"),)

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        self.check(release)
        method = ReplayMethod(release, self, resources, seed=seed)
        return drive(method, self, release, seed=seed, watch=watch, resources=resources)


class ReplayMethod(Method[ReplayState]):
    """One attack on one release."""

    state_type = ReplayState

    def __init__(self, release: Release, attack: Replay, resources: Resources, *, seed: int) -> None:
        self.release, self.attack, self.resources, self.seed = release, attack, resources, seed
        self.passes = PassCounter()
        self.training = SimulatedTraining(release, device=resources.device, memory=resources.memory, passes=self.passes)
        self._check_memory()
        self.norm = release.facts.input_norm or math.sqrt(release.d)
        self.notes: tuple[str, ...] = ()
        self._search = self._searching(None)

    def _check_memory(self) -> None:
        recipe, columns = self.training.recipe, self.training.basis.shape[1] + self.release.k + 1
        needed = 3 * 8 * self.training.parameters * recipe.n * columns
        if needed > self.resources.memory:
            raise ExhumeError(
                f"replay needs {needed / 1e9:.1f} GB for the derivative of {self.training.parameters} weights in "
                f"{recipe.n * columns} unknowns, allowed are {self.resources.memory / 1e9:.1f} GB. Raise --memory."
            )

    def _searching(self, first: torch.Tensor | None) -> ReplaySearch:
        kinks = activation(self.release.network.activation).homogeneous
        enough = precision(self.release.weights.dtype).certified
        return ReplaySearch(
            self.training, norm=self.norm, kinks=kinks, seed=self.seed, starts=self.attack.starts, enough=enough, first=first
        )

    def begin(self) -> ReplayState:
        """Rows of another attack, or random ones."""
        return self._searching(self._first_rows()).begin()

    def _first_rows(self) -> torch.Tensor | None:
        name = "first-layer" if self.attack.start == "auto" else self.attack.start
        if name == "random" or _STARTS[name].refusal(self.release) is not None:
            return None
        inner = Resources(device=self.resources.device, memory=self.resources.memory)
        found = _STARTS[name].run(self.release, seed=self.seed, resources=inner)
        self.passes.add(found.passes)
        if len(found.rows) != self.training.recipe.n:
            return None
        return found.rows.to(self.training.basis) @ self.training.basis

    def advance(self, state: ReplayState) -> ReplayState:
        """One Gauss-Newton step through training."""
        return self._search.advance(state)

    def done(self, state: ReplayState) -> bool:
        """Whether the weights are met, or the attempts are spent."""
        return self._search.done(state)

    def report(self, state: ReplayState) -> StepReport:
        """The candidates, in the inputs' own space."""
        return StepReport(state.stage.value, state.step, state.loss, self.training.inputs(state.samples.rows), state.attempt)

    def time_left(self, state: ReplayState, curve: Curve) -> float | None:
        """Until the weights are met to rounding."""
        return time_to_loss(curve, precision(self.release.weights.dtype).converged)

    def finish(self, state: ReplayState) -> Answer:
        """The best attempt, and how sure it is."""
        earlier = state.best is not None and state.best_loss < state.loss
        samples, loss = (state.best, state.best_loss) if earlier else (state.samples, state.loss)
        assert samples is not None
        costs = removal_costs(self.training, samples)
        proof = self._certificate(samples, loss, weakest=float(costs.min()))
        status, reason = judge(proof, converged=False)
        mirrored = self._mirrored(samples)
        notes = ["no sign of a row counts: the network is odd, and -x with -y trains it as x with y does"] if mirrored else []
        rows = self.training.inputs(samples.rows).to(self.release.weights.dtype)
        return Answer(
            rows,
            status,
            reason,
            proof,
            tuple(costs.tolist()),
            signs_resolved=not mirrored,
            scale="fitted",
            notes=(f"training was run again for {sum(self.training.recipe.steps)} steps per look", *notes),
        )

    def _certificate(self, samples: Samples, loss: float, *, weakest: float) -> Certificate:
        """Equations of the units that fit, unknowns, and sigma^2 (J^T J)^-1 for each row."""
        misses, J = self.training.derivative(samples, free_weights=False)
        counts = CauchyCost(self._search.groups, misses).counts(misses)
        # Units count by how far they miss the others' miss; at rounding all of them do.
        floor = precision(self.release.weights.dtype).certified
        counted = (counts >= _COUNTS) | (misses.square() < floor / len(misses))
        kept, equations = J[counted], int(counted.sum())
        unknowns = samples.m * (samples.rows.shape[1] + samples.targets.shape[1])
        # Every step of training rounds each number once.
        rounding = torch.finfo(self.release.weights.dtype).eps ** 2 * sum(self.training.recipe.steps)
        variance = max(float(misses[counted].square().sum()) / max(1, equations - unknowns), rounding)
        # Directions that no equation holds have eigenvalues at rounding, and with these an error without bound.
        values, vectors = torch.linalg.eigh(kept.T @ kept)
        covariance = vectors.square() @ (1 / values.clamp(min=torch.finfo(values.dtype).eps * values[-1]))
        spread = covariance[: samples.rows.numel()].reshape(samples.rows.shape).sum(1)
        errors = (variance * spread).sqrt() / samples.rows.norm(dim=1)
        return Certificate(equations, unknowns, loss, floor, tuple(errors.tolist()), weakest, None, self._separation(samples))

    def _separation(self, samples: Samples) -> float:
        """The least share of the first layer's hyperplanes expected between two rows that lies there, at either end of training.

        Samples in one linear cell act by their sums and products alone, which three of them share with other rows. Smooth
        activations have no cells.
        """
        if self._search.groups is None or samples.m < 2:
            return 1.0
        pairs = torch.combinations(torch.arange(samples.m, device=samples.rows.device))
        on = torch.cat([self.training.first_outputs(samples.rows, at) > 0 for at in (self.training.begun, self.training.goal)], 1)
        between = (on[pairs[:, 0]] != on[pairs[:, 1]]).sum(1)
        unit = torch.nn.functional.normalize(samples.rows)
        angles = torch.arccos((unit[pairs[:, 0]] * unit[pairs[:, 1]]).sum(1).clamp(-1, 1))
        return float((between / (angles / math.pi * on.shape[1]).clamp(min=1e-12)).min())

    def _mirrored(self, samples: Samples) -> bool:
        """Whether the network is odd at both ends of training: (-x, -y) and (x, y) are then one sample to it."""
        if self.training.recipe.loss != "square":
            return False
        ends = (self.training.begun, self.training.goal)
        both = [(self.training.outputs(samples.rows, at), self.training.outputs(-samples.rows, at)) for at in ends]
        return all(bool(torch.allclose(plus, -minus, rtol=1e-9, atol=1e-12)) for plus, minus in both)
