"""Random-features regression: minimum-norm interpolation (Eq. 2) and ridge (Eq. 169) in closed form, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec
from exhume.knowledge import Facts, Knowledge
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.release import Release
from exhume.victims.interface import Trained, TrainingReport, Victim, ignore_training, without_duplicates
from exhume.victims.losses import loss_named, signs_of
from exhume.victims.pruning import check_prune, optimal_brain_surgeon

# Singular directions of the n x n kernel below this share of the largest are rounding (duplicate rows make them).
_RANK = 1e-13
_LOGISTIC_STEPS = 1_000_000


@dataclass(frozen=True)
class RandomFeaturesVictim(Victim):
    """theta* = Phi^T (Phi Phi^T + n lambda I)^-1 y over phi(x) = act(Vx)."""

    p: int
    activation: str = "relu"
    ridge: float = 0.0
    loss: str = "square"  # or "logistic" (Figure 8, left)
    prune: float = 0.0  # share of features that Optimal Brain Surgeon removes after training (Figure 16)
    seed: int = 0
    dtype: torch.dtype = torch.float64
    knowledge: Knowledge = Knowledge()
    allow_underfit: bool = False

    def _check(self, n: int) -> None:
        if self.p < 1:
            raise ExhumeError(f"p must be at least 1, got {self.p}.")
        if self.p < n and not self.allow_underfit:
            raise ExhumeError(
                f"p = {self.p} features cannot fit n = {n} labels. Give p >= n, or --allow-underfit for the least-squares fit."
            )
        loss_named(self.loss).check(1)
        check_prune(self.prune)
        if self.prune and (self.loss != "square" or self.ridge):
            raise ExhumeError("--prune needs the square loss and no ridge, where Optimal Brain Surgeon has a closed form.")
        if not 0 <= self.ridge < float("inf"):
            raise ExhumeError(f"ridge must not be negative or infinite, got {self.ridge}.")

    def train(
        self,
        dataset: Dataset,
        *,
        device: str = "cpu",
        memory: int = DEFAULT_BUDGET,
        report: TrainingReport = ignore_training,
        checkpoint: Path | None = None,
    ) -> Trained:
        """Fit the last layer; the kernel and its solution are float64, the weights of the victim's dtype."""
        self._check(dataset.n)
        n, logistic = dataset.n, self.loss == "logistic"
        spec = RandomFeaturesSpec.describe(dataset.d, self.p, self.activation, self.seed)
        features = RandomFeatures(spec, dtype=self.dtype, memory=FeatureMemory(device, memory // 2))
        X = dataset.rows.to(features.device, self.dtype)
        y = (signs_of(dataset) if logistic else dataset.labels).to(features.device)
        kernel = torch.zeros(n, n, dtype=torch.float64, device=features.device)
        for phi in features.values(X):
            kernel += phi.double().T @ phi.double()
        alpha = _descend_logistic(kernel, y, self.ridge) if logistic else _solve(kernel, y, n * self.ridge)
        surgeon = None
        if self.prune:
            surgeon = optimal_brain_surgeon(torch.cat([phi.double() for phi in features.values(X)]), y, self.prune)
        theta = torch.empty(self.p, dtype=self.dtype, device=features.device)
        outputs = torch.zeros(n, dtype=torch.float64, device=features.device)
        for block in features.blocks():
            phi = features.activation.value(block.preactivation(X)).double()  # (b, n)
            theta[block.rows] = (phi @ alpha if surgeon is None else surgeon[block.rows]).to(self.dtype)
            outputs += phi.T @ theta[block.rows].double()
        truth = without_duplicates(dataset)
        true = Facts(
            n=n,
            input_norm=dataset.input_norm,
            input_range=dataset.input_range,
            label_size=None if logistic else truth.label_size,
            ridge=self.ridge,
            pruned=self.prune > 0,
        )
        error = torch.nn.functional.softplus(-y * outputs) if logistic else (outputs - y) ** 2
        return Trained(Release(theta[None].cpu(), spec, self.knowledge.facts(true)), truth, float(error.mean()))


def _descend_logistic(kernel: torch.Tensor, y: torch.Tensor, decay: float) -> torch.Tensor:
    """Gradient descent on sum log(1 + e^(-y f)) from zero: theta = Phi^T a all along, so a alone is iterated."""
    step, target = 4.0 / float(torch.linalg.eigvalsh(kernel)[-1]), loss_named("logistic").stops_at
    a = torch.zeros_like(y)
    for _ in range(_LOGISTIC_STEPS):
        output = kernel @ a
        if float(torch.nn.functional.softplus(-y * output).mean()) <= target:
            break
        a = (1 - step * decay) * a + step * y * torch.sigmoid(-y * output)
    return a


def _solve(kernel: torch.Tensor, y: torch.Tensor, shift: float) -> torch.Tensor:
    """(K + shift I)^+ y by eigenvalues: duplicate rows and p < n leave K singular."""
    values, vectors = torch.linalg.eigh(kernel)
    if shift > 0:
        return vectors @ ((vectors.T @ y) / (values + shift))
    keep = values > _RANK * values[-1]
    return vectors[:, keep] @ ((vectors[:, keep].T @ y) / values[keep])
