"""`gauss-newton`: the span problem solved by grow-and-prune Gauss-Newton; n, signs and scale come out of the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from exhume.attacks.base import Resources, Watch, ignore
from exhume.attacks.exact_run import ExactRun
from exhume.attacks.network_run import NetworkRun
from exhume.attacks.search import Plan
from exhume.errors import ExhumeError
from exhume.release import NetworkSpec, Release
from exhume.result import Reconstruction


@dataclass(frozen=True)
class GaussNewton:
    """Settings of the default attack; the defaults are meant for every problem."""

    name: ClassVar[str] = "gauss-newton"
    about: ClassVar[str] = "grow-and-prune Gauss-Newton on ||P_perp theta||^2; signs, scale and n come out of the weights"
    needs: ClassVar[str] = "weights before and after training; n is found"

    turnover: float = 0.1
    cg_steps: int = 4
    cg_tolerance: float = 0.1
    starts: int = 4
    full_rounds: int = 6
    subsample: float = 3.0  # features per unknown coordinate that carry the search; the rest only verify
    rows: int | None = None  # a fixed number of rows, where somebody claims to know n
    linearise: str = "midpoint"  # networks: features at the midpoint of training, the trained or the initial weights
    exact: bool = True  # weights are those that training ended with; False: they were rounded, pruned or noised since

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        if not (self.exact and release.fixed_features):
            if not isinstance(release.features, NetworkSpec):
                raise ExhumeError("inexact weights are searched in a network's release; this one is of drawn random features.")
            network = NetworkRun(self, self.plan(), release, seed, watch, resources, point=self.linearise, rows=self.rows)
            return network.run()
        run = ExactRun(self, release, seed, watch, resources)
        return run.finish(run.search())

    def plan(self) -> Plan:
        """The search's share of the settings."""
        return Plan(
            turnover=self.turnover,
            cg_steps=self.cg_steps,
            cg_tolerance=self.cg_tolerance,
            starts=self.starts,
            full_rounds=self.full_rounds,
        )
