"""`subspace`: the second paper's attack, a search for rows inside the row space of the first layer's change, x = Q z.

Under gradient descent every row of dW1 is a combination of the training inputs, so they lie in span(dW1) and the search
has r <= n coordinates per row instead of d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from exhume.attacks.base import Resources, Watch, ignore
from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.network import input_space
from exhume.attacks.network_run import NetworkRun
from exhume.errors import ExhumeError
from exhume.release import NetworkSpec, Release
from exhume.result import Reconstruction


@dataclass(frozen=True)
class Subspace:
    """Settings of the subspace attack."""

    name: ClassVar[str] = "subspace"
    about: ClassVar[str] = "gauss-newton inside the row space of the first layer's change (Tansley et al. 2026)"
    needs: ClassVar[str] = "weights before and after training; n is found"

    linearise: str = "midpoint"  # where features are taken: midpoint, trained or initial weights
    rows: int | None = None

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        if not isinstance(release.features, NetworkSpec):
            raise ExhumeError("subspace reads the first layer's change, and random features have none. Use --attack gauss-newton.")
        first = f"{release.features.first}.weight"
        if first not in release.initial:
            raise ExhumeError("subspace needs the first layer before training (--know-init all). Use --attack gauss-newton.")
        plan = GaussNewton().plan()
        run = NetworkRun(self, plan, release, seed, watch, resources, point=self.linearise, rows=self.rows)
        basis = input_space(run.learned.change(first), release.features)
        if not 0 < basis.shape[1] < release.d:
            holds = "every patch" if basis.shape[1] else "no input whole (it has fewer channels than the data has patches)"
            run.notes.append(f"the first layer's change holds {holds}: searched in the full space")
            return run.run()
        run.notes.append(f"searched inside the {basis.shape[1]} dimensions that the first layer's change spans")
        return run.run(basis)
