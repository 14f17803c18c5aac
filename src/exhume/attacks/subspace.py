"""`subspace`: the second paper's attack, a search for rows inside the row space of the first layer's change, x = Q z.

Under gradient descent every row of dW1 is a combination of the training inputs, so they lie in span(dW1) and the search
has r <= n coordinates per row instead of d.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from exhume.attacks.interface import Attack, Proposal, Resources, Watch, ignore
from exhume.attacks.run import drive
from exhume.attacks.search.growth import GrowthSettings
from exhume.attacks.span.trained_network import input_space, learned
from exhume.attacks.trained_features import TrainedFeatures
from exhume.release import Release
from exhume.result import Reconstruction


@dataclass(frozen=True)
class Subspace(Attack):
    """Settings of the subspace attack."""

    name: str = field(default="subspace", init=False)
    about: str = field(default="gauss-newton inside the row space of the first layer's change (Tansley et al. 2026)", init=False)
    needs: str = field(default="weights before and after training; n is found", init=False)

    linearise: str = "midpoint"  # where features are taken: midpoint, trained or initial weights
    rows: int | None = None  # a fixed number of rows, where somebody claims to know n

    def refusal(self, release: Release) -> str | None:
        """It needs a first layer, and that as it was before training."""
        if not release.trained:
            return "subspace reads the first layer's change, and random features have none. Use --attack gauss-newton."
        if release.first_layer() is None:
            return "subspace needs the first layer before training (--know-init all). Use --attack gauss-newton."
        return None

    def proposals(self, release: Release) -> tuple[Proposal, ...]:
        """Run before the search in the full space, where the first layer's change confines the samples."""
        first = release.first_layer()
        if release.features_stayed:
            return (Proposal(self, None, "the first layer was not trained, so it reveals no subspace"),)
        if first is None:
            return (Proposal(self, None, "the first layer before training is not known, so its change is not either"),)
        if torch.equal(*first):
            return (Proposal(self, None, "the first layer did not move, so it reveals no subspace"),)
        r = _basis(release).shape[1]
        if not 0 < r < release.d:
            holds = "holds no input whole, so it reveals no subspace" if r == 0 else "spans every input"
            return (Proposal(self, None, f"the first layer's change {holds}"),)
        return (Proposal(self, 10, f"the first layer's change confines the samples to {r} of {release.d} dimensions"),)

    def run(self, release: Release, *, seed: int = 0, watch: Watch = ignore, resources: Resources = Resources()) -> Reconstruction:
        """Rebuild the training rows from the release alone."""
        self.check(release)
        basis: torch.Tensor | None = _basis(release)
        assert basis is not None
        if 0 < basis.shape[1] < release.d:
            note = f"searched inside the {basis.shape[1]} dimensions that the first layer's change spans"
        else:
            holds = "every patch" if basis.shape[1] else "no input whole (it has fewer channels than the data has patches)"
            note, basis = f"the first layer's change holds {holds}: searched in the full space", None
        method = TrainedFeatures(
            release,
            resources,
            seed=seed,
            rows=self.rows,
            linearise=self.linearise,
            growth=GrowthSettings(),
            basis=basis,
            notes=(note,),
        )
        return drive(method, self, release, seed=seed, watch=watch, resources=resources)


def _basis(release: Release) -> torch.Tensor:
    """Q (d, r): what the first layer's change allows as inputs."""
    spec = release.network
    assert spec.first_weight is not None
    return input_space(learned(release).change(spec.first_weight), spec)
