"""`gauss-newton`: the span problem solved by grow-and-prune Gauss-Newton; n, signs and norms come out of the weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from exhume.attacks.fixed_features import FixedFeatures, FixedFeaturesSettings
from exhume.attacks.interface import Attack, Proposal, Resources, Watch, ignore
from exhume.attacks.run import drive
from exhume.attacks.search.candidates import InnerSolve
from exhume.attacks.search.growth import GrowthSettings
from exhume.attacks.trained_features import TrainedFeatures
from exhume.release import Release
from exhume.result import Reconstruction


@dataclass(frozen=True)
class GaussNewton(Attack):
    """Settings of the default attack; the defaults are meant for every problem."""

    name: str = field(default="gauss-newton", init=False)
    about: str = field(
        default="grow-and-prune Gauss-Newton on ||P_perp theta||^2; signs, scale and n come out of the weights", init=False
    )
    needs: str = field(default="weights before and after training; n is found", init=False)

    turnover: float = 0.1  # share of the weakest rows replaced when the search stalls
    cg_steps: int = 4  # of the inner solve, before it gets longer
    cg_tolerance: float = 0.1
    starts: int = 4  # attempts before the search gives up
    full_rounds: int = 6  # rounds at the largest admissible number of rows before a new attempt
    subsample: float = 3.0  # features per unknown coordinate that carry the search; the rest only verify
    rows: int | None = None  # a fixed number of rows, where somebody claims to know n
    linearise: str = "midpoint"  # networks: features at the midpoint of training, the trained or the initial weights
    exact: bool = True  # weights are those that training ended with; False: they were rounded, pruned or noised since

    def refusal(self, release: Release) -> str | None:
        """Inexact weights are looked for in networks only."""
        if not self.exact and not release.trained:
            return "inexact weights are searched in a network's release; this one is of drawn random features."
        return None

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        """Always run: exactly where the features stayed, through drifting features otherwise."""
        if release.features_stayed:
            exactly = Proposal(self, 20, "only the last layer was trained, so its weights lie exactly in the features' span")
            noisy = Proposal(
                GaussNewton(exact=False), 30, "in case the weights were rounded or noised since: looks for a noise floor"
            )
            return (exactly, noisy) if release.trained else (exactly,)
        return (Proposal(self, 20, _why_through_drift(release)),)

    def shares_features(self, release: Release) -> bool:
        """Random features can be shared among processes."""
        return release.model.shared_by_processes

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        self.check(release)
        growth = self.growth()
        if self.exact and release.features_stayed:
            settings = FixedFeaturesSettings(subsample=self.subsample)
            fixed = FixedFeatures(release, resources, seed=seed, rows=self.rows, growth=growth, settings=settings)
            return drive(fixed, self, release, seed=seed, watch=watch, resources=resources)
        trained = TrainedFeatures(release, resources, seed=seed, rows=self.rows, linearise=self.linearise, growth=growth)
        return drive(trained, self, release, seed=seed, watch=watch, resources=resources)

    def growth(self) -> GrowthSettings:
        """The search's share of the settings."""
        return GrowthSettings(
            inner=InnerSolve(self.cg_steps, self.cg_tolerance),
            starts=self.starts,
            rounds_at_limit=self.full_rounds,
            turnover=self.turnover,
        )


def _why_through_drift(release: Release) -> str:
    """The reason that an audit gives for an attack on features that moved."""
    first = release.first_layer()
    if first is None:
        known = "only the last layer is known from before training" if release.initial else "nothing is known from before training"
        return f"{known}: features are taken at the trained weights"
    if torch.equal(*first):
        return "the first layer did not move"
    return "a search in the full space of inputs"
