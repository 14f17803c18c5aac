"""A new attack, as somebody who extends exhume writes one: a file of its own, and one line that registers it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from exhume.attacks import Attack, Proposal, Resources, Watch, ignore
from exhume.attacks.interface import claimed_rows
from exhume.attacks.run import Answer, Method, StepReport, drive
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point
from exhume.features import FeatureMemory
from exhume.linalg import streams
from exhume.linalg.pass_counter import PassCounter
from exhume.release import Release
from exhume.result import Certificate, Curve, Reconstruction, Status


@dataclass(frozen=True)
class PowerAttack(Attack):
    """Rows along the leading eigenvectors of the weights' second moment, by power iteration."""

    name: str = field(default="power", init=False)
    about: str = field(default="power iteration on the weights' second moment", init=False)
    needs: str = field(default="weights of random features", init=False)
    rows: int | None = None
    rounds: int = 8

    def refusal(self, release: Release) -> str | None:
        return None if release.features_stayed else "power reads random features. Use --attack gauss-newton."

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        refused = self.refusal(release)
        return (Proposal(self, None, refused) if refused else Proposal(self, 90, "a last resort, in seconds"),)

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        self.check(release)
        return drive(_Power(self, release, seed), self, release, seed=seed, watch=watch, resources=resources)


@dataclass(frozen=True)
class _PowerState:
    directions: torch.Tensor  # (d, m)
    round: int = 0


class _Power(Method[_PowerState]):
    state_type = _PowerState

    def __init__(self, attack: PowerAttack, release: Release, seed: int) -> None:
        self.attack, self.release, self.seed, self.passes = attack, release, seed, PassCounter()
        features, weights = release.fixed_features(FeatureMemory()), release.weights[:, release.alive]
        self.problem = BlockwiseSpan(features, weights, radius=release.d**0.5, nuisance=False, passes=self.passes)

    def begin(self) -> _PowerState:
        rows = claimed_rows(self.attack.rows, self.release) or 3
        return _PowerState(streams.random_directions(self.release.d, rows, seed=self.seed, purpose="power"))

    def advance(self, state: _PowerState) -> _PowerState:
        image = self.problem.moment_product(self.problem.strongest(self.problem.theta), state.directions)
        return replace(state, directions=torch.linalg.qr(image)[0].contiguous(), round=state.round + 1)

    def done(self, state: _PowerState) -> bool:
        return state.round >= self.attack.rounds

    def _rows(self, state: _PowerState) -> torch.Tensor:
        return self.problem.on_sphere(state.directions.T.to(self.problem.dtype)).contiguous()

    def report(self, state: _PowerState) -> StepReport:
        X = self._rows(state)
        return StepReport("power", state.round, self.problem.state(Point(X)).loss, X)

    def time_left(self, state: _PowerState, curve: Curve) -> float | None:
        return curve.seconds[-1] * (self.attack.rounds - state.round) / state.round

    def finish(self, state: _PowerState) -> Answer:
        X = self._rows(state)
        proof = Certificate(self.problem.equations, self.problem.unknowns(len(X)), self.problem.state(Point(X)).loss, 1e-15)
        return Answer(X, Status.UNCERTIFIED, "this attack proves nothing about its rows", proof)
