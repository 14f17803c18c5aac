"""The spectrum job: how far the samples stand out of the weights' second moment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from exhume.attacks import Resources, Watch
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.data import DataRequest, load
from exhume.data.registry import placed, shape_of
from exhume.features import FeatureMemory
from exhume.lab.job import Done, data_settings
from exhume.lab.trial import Trial, train_victim
from exhume.linalg import streams


@dataclass(frozen=True)
class SpectrumJob:
    """Eigenvalues of the weights' second moment M2 = sum_k theta_k (d v_k v_k^T - I), beside those with shuffled signs."""

    kind: ClassVar[str] = "spectrum"
    data: DataRequest
    ratio: float
    activation: str = "relu"
    seed: int = 0

    def settings(self) -> dict[str, Any]:
        """Data, size and activation."""
        plain: dict[str, Any] = {"ratio": self.ratio, "activation": self.activation, "seed": self.seed}
        return plain | {"data": data_settings(self.data)}

    def flops(self) -> float:
        """Two products with V of d columns."""
        d, n = shape_of(self.data)
        return 4.0 * d * d * n * d * self.ratio

    def run(self, *, data_dir: Path | None, watch: Watch, resources: Resources) -> Done:
        """The spectrum in units of the shuffled one's edge."""
        data = load(placed(self.data, data_dir))
        trial = Trial(self.data, ratio=self.ratio, activation=self.activation, seed=self.seed, dtype="float64", allow_underfit=True)
        release = train_victim(trial, data, resources=resources).release
        features = release.fixed_features(FeatureMemory(resources.device))
        problem = BlockwiseSpan(features, release.weights, radius=release.facts.input_norm, nuisance=False)
        vector = problem.strongest(problem.theta)
        flips = torch.randint(0, 2, vector.shape, generator=streams.generator(self.seed, "flips")) * 2 - 1
        eye = torch.eye(problem.d, dtype=torch.float64, device=problem.device)
        spectra = [torch.linalg.eigvalsh(problem.moment_product(v, eye)) for v in (vector, vector * flips.to(vector))]
        edge = float(spectra[1].abs().max())
        values = (spectra[0] / edge).cpu()
        row: dict[str, Any] = {
            "d": problem.d,
            "n_true": data.n,
            "p": problem.p,
            "ratio": problem.p / (problem.d * data.n),
            "seed": self.seed,
        }
        row |= {"outside": int((values.abs() > 1).sum()), "largest": float(values.abs().max()), "status": "done"}
        return Done(row, {"eigenvalues": values, "shuffled": (spectra[1] / edge).cpu()})
