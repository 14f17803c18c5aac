"""Random-features regression: minimum-norm interpolation (Eq. 2) and ridge (Eq. 169) in closed form, block by block."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.features import RandomFeatures
from exhume.linalg.blocks import DEFAULT_BUDGET
from exhume.release import Facts, Release
from exhume.victims.pruning import check_prune, optimal_brain_surgeon
from exhume.victims.targets import check_loss, signs_of

# Singular directions of the n x n kernel below this share of the largest are rounding (duplicate rows make them).
_RANK = 1e-13
# Mean logistic loss at which training stops: every label is fitted with a margin.
_LOGISTIC_TARGET, _LOGISTIC_STEPS = 1e-2, 1_000_000


@dataclass(frozen=True)
class Trained:
    """A trained victim: what is released, what stays secret, and how well it fits."""

    release: Release
    truth: Dataset
    train_loss: float  # mean loss on the training set
    course: dict[str, Any] = field(default_factory=dict)  # networks: drift, change and spectrum of the first layer, steps


@dataclass(frozen=True)
class RandomFeaturesVictim:
    """theta* = Phi^T (Phi Phi^T + n lambda I)^-1 y over phi(x) = act(Vx)."""

    p: int
    activation: str = "relu"
    ridge: float = 0.0
    loss: str = "square"  # or "logistic" (Figure 8, left)
    prune: float = 0.0  # share of features that Optimal Brain Surgeon removes after training (Figure 16)
    seed: int = 0
    dtype: torch.dtype = torch.float64
    know_n: bool = False
    know_labels: bool = True
    know_norm: bool = True
    allow_underfit: bool = False


def train_random_features(
    victim: RandomFeaturesVictim, dataset: Dataset, *, device: str = "cpu", memory: int = DEFAULT_BUDGET
) -> Trained:
    """Fit the last layer on the dataset; the kernel and its solution are float64, the weights the victim's dtype."""
    n, d = dataset.n, dataset.d
    if victim.p < 1:
        raise ExhumeError(f"p must be at least 1, got {victim.p}.")
    if victim.p < n and not victim.allow_underfit:
        raise ExhumeError(
            f"p = {victim.p} features cannot fit n = {n} labels. Give p >= n, or --allow-underfit for the least-squares fit."
        )
    check_loss(victim.loss, 1)
    check_prune(victim.prune)
    if victim.prune and (victim.loss != "square" or victim.ridge):
        raise ExhumeError("--prune needs the square loss and no ridge, where Optimal Brain Surgeon has a closed form.")
    if not 0 <= victim.ridge < float("inf"):
        raise ExhumeError(f"ridge must not be negative or infinite, got {victim.ridge}.")
    spec = RandomFeatures.describe(d, victim.p, victim.activation, victim.seed)
    features = RandomFeatures(spec, dtype=victim.dtype, device=device, keep_bytes=memory // 2)
    X = dataset.rows.to(features.device, victim.dtype)
    y = dataset.labels.to(features.device)
    act = features.activation
    kernel = torch.zeros(n, n, dtype=torch.float64, device=features.device)
    for block in features.blocks():
        phi = act.value(block.preactivation(X)).double()  # (b, n)
        kernel += phi.T @ phi
    logistic = victim.loss == "logistic"
    y = signs_of(dataset).to(y) if logistic else y
    alpha = _descend_logistic(kernel, y, victim.ridge) if logistic else _solve(kernel, y, n * victim.ridge)
    surgeon = None
    if victim.prune:
        Phi = torch.cat([act.value(block.preactivation(X)).double() for block in features.blocks()])
        surgeon = optimal_brain_surgeon(Phi, y, victim.prune)
    theta = torch.empty(victim.p, dtype=victim.dtype, device=features.device)
    outputs = torch.zeros(n, dtype=torch.float64, device=features.device)
    for block in features.blocks():
        phi = act.value(block.preactivation(X)).double()
        theta[block.rows] = (phi @ alpha if surgeon is None else surgeon[block.rows]).to(victim.dtype)
        outputs += phi.T @ theta[block.rows].double()
    truth = note_duplicates(dataset)
    facts = Facts(
        n=n if victim.know_n else None,
        input_norm=dataset.input_norm if victim.know_norm else None,
        input_range=dataset.input_range if victim.know_norm else None,
        label_size=truth.label_size if victim.know_labels and not logistic else None,
        ridge=victim.ridge,
        pruned=victim.prune > 0,
    )
    error = torch.nn.functional.softplus(-y * outputs) if logistic else (outputs - y) ** 2
    return Trained(Release(theta[None].cpu(), spec, facts), truth, float(error.mean()))


def _descend_logistic(kernel: torch.Tensor, y: torch.Tensor, decay: float) -> torch.Tensor:
    """Gradient descent on sum log(1 + e^(-y f)) from zero: theta = Phi^T a all along, so a alone is iterated."""
    step = 4.0 / float(torch.linalg.eigvalsh(kernel)[-1])
    a = torch.zeros_like(y)
    for _ in range(_LOGISTIC_STEPS):
        output = kernel @ a
        if float(torch.nn.functional.softplus(-y * output).mean()) <= _LOGISTIC_TARGET:
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


def note_duplicates(dataset: Dataset) -> Dataset:
    """Identical rows leave one trace in the weights: keep one of them as truth, and say so."""
    seen: dict[bytes, int] = {}
    notes: list[str] = []
    keep: list[int] = []
    for i, row in enumerate(dataset.rows):
        first = seen.setdefault(row.numpy().tobytes(), i)
        if first == i:
            keep.append(i)
        else:
            notes.append(f"rows {first} and {i} are identical: they leave one trace in the weights and count once")
    if not notes:
        return dataset
    index = torch.tensor(keep)
    # Identical rows with unlike labels are fitted to a mean of them, so the size of that is not known.
    agree = all(dataset.labels[seen[row.numpy().tobytes()]] == y for row, y in zip(dataset.rows, dataset.labels, strict=True))
    return replace(
        dataset,
        rows=dataset.rows[index],
        labels=dataset.labels[index],
        label_size=dataset.label_size if agree else None,
        notes=(*dataset.notes, *notes),
    )
