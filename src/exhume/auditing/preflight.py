"""Before any attack, in seconds: where a model stands against p = dn, whether it interpolates, how far its features moved."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from exhume.attacks.factors.layer_change import first_layer_change
from exhume.attacks.span.trained_network import row_space
from exhume.auditing.loaders.torch_modules import FITTED
from exhume.auditing.subject import Subject
from exhume.data import Dataset
from exhume.features import activation, read_activation
from exhume.linalg.numerical_rank import rank_by_gap
from exhume.prediction.expectation import expect, expect_first_layer

# The effective dimension counts the principal directions that carry this share of the inputs' energy.
_ENERGY = 0.99
# Passes that an attack on a module typically takes.
_NETWORK_PASSES = 3000
# The same on features that see the norms of rows: 5,000 to 23,000 were seen for 20 to 50 patients.
_PURSUIT_PASSES = 20_000
# Features that moved by more than this share are no longer those at either end of training.
_FAR = 0.3


@dataclass(frozen=True)
class Preflight:
    """The law applied to one model and its data."""

    p: int  # parameters of the last layer, all outputs together
    d: int
    n: int
    ratio: float  # p / (d n)
    effective_dimension: int  # r of the data
    ratio_effective: float  # p / (r n)
    first_layer_rank: int | None  # dimensions that the first layer's change spans
    hidden_per_sample: float | None  # units of a dense first layer with a ReLU behind it, whose start is known, over n
    first_layer_noise: float | None  # its change outside of its rank, as a share of the whole
    first_layer_outcome: str | None  # what that layer alone lets one expect
    train_error: float  # share of labels missed (classes), or root mean square error relative to the labels' spread
    interpolates: bool
    conditioning: float  # largest over smallest eigenvalue of the training features' Gram matrix
    drift: float | None  # relative change of the training features while training
    sign: str
    scale: str
    equations_per_unknown: float
    determined: bool
    weights_per_coordinate: float  # all trained weights / (d n); p / (d n) where only the last layer was trained
    outcome: str
    sentence: str
    measured_rate: float | None
    seconds: float  # a typical attack on this machine
    memory_gb: float
    warnings: tuple[str, ...]

    @property
    def outnumbered(self) -> bool:
        """Whether the samples hold more numbers than all weights that were trained: then no attack without a prior finds them."""
        return self.weights_per_coordinate <= max(1.0, self.ratio)


def preflight(subject: Subject) -> Preflight:
    """Counting, the data's spectrum, the fit, the features' conditioning and drift, and what was measured at this ratio."""
    release, truth = subject.release, subject.truth
    k = release.k
    Phi, seconds_per_pass = _features(subject)
    rank = int(torch.linalg.matrix_rank((release.weights @ release.weights.T).double()))
    p = release.p * k
    law = expect(release.p * rank, release.d, truth.n, release.model.activation)
    values = torch.linalg.eigvalsh((Phi @ Phi.T).double())
    energy = torch.linalg.svdvals(truth.rows).square()
    r = int((energy.cumsum(0) < _ENERGY * energy.sum()).sum()) + 1
    error, fits = training_error(subject, truth)
    drift = _drift(subject)
    sign, scale = _identifiable(subject)
    warnings = list(subject.notes)
    if not fits:
        warnings.append(
            f"the model misses labels of the data given (error {error:.2g}): it does not interpolate them, or they are not its data"
        )
    if drift is not None and drift > _FAR:
        warnings.append(f"features moved by {drift:.0%} while training: what is rebuilt will be less exact")
    if release.trained and not release.initial:
        warnings.append("weights before training are not known: the last layer's start acts as noise")
    return Preflight(
        p=p,
        d=truth.d,
        n=truth.n,
        ratio=p / (truth.d * truth.n),
        effective_dimension=r,
        ratio_effective=p / (r * truth.n),
        first_layer_rank=_first_layer_rank(subject),
        **_first_layer(subject),
        train_error=error,
        interpolates=fits,
        conditioning=float(values[-1] / values[0].clamp(min=values[-1] * 1e-18)),
        drift=drift,
        sign=sign,
        scale=scale,
        equations_per_unknown=law.equations / law.unknowns,
        determined=law.determined,
        weights_per_coordinate=_trained_weights(subject) / (truth.d * truth.n),
        outcome=law.outcome,
        sentence=law.sentence,
        measured_rate=law.measured_rate,
        seconds=_seconds(subject, seconds_per_pass, law.seconds),
        memory_gb=4 * 8 * Phi.numel() / 1e9 + 8 * release.p * release.d / 1e9,
        warnings=tuple(warnings),
    )


def training_error(subject: Subject, data: Dataset) -> tuple[float, bool]:
    """(share of wrong classes or relative RMS error, whether that is a fit)."""
    answers = subject.outputs(data.rows)
    if subject.classes and answers.shape[1] > 1:
        picked = torch.tensor(subject.classes, dtype=torch.float64)[answers.argmax(dim=1)]
        wrong = float((picked != data.labels).double().mean())
        return wrong, wrong == 0
    labels = data.labels
    if len(torch.unique(labels)) == 2:
        low, high = torch.unique(labels).tolist()
        # Two classes behind one output: zero parts them for margins, their middle for regression on the labels themselves.
        parts = [0.0, (low + high) / 2]
        wrong = min(float(((answers[:, 0] > t) != (labels == high)).double().mean()) for t in parts)
        return wrong, wrong == 0
    spread = labels.std() if len(labels) > 1 else labels.abs().max()  # a single label has no spread, but a size
    error = float((answers[:, 0] - labels).square().mean().sqrt() / spread.clamp(min=1e-300))
    return error, error < FITTED


def _features(subject: Subject) -> tuple[torch.Tensor, float]:
    """Features of the training rows (n, p) at the trained weights, and the seconds that a pass over them takes."""
    release, rows = subject.release, subject.rows_for(subject.truth.rows)
    start = time.perf_counter()
    Phi = torch.cat(list(release.model.feature_blocks(release.trained)(rows))).T
    return Phi, time.perf_counter() - start


def _seconds(subject: Subject, one_pass: float, skinny: float) -> float:
    """A typical attack's time: by GEMMs where those are all, else by a pass that was timed here."""
    model = subject.release.model
    if not model.one_hidden_layer:
        return _NETWORK_PASSES * one_pass
    return skinny if activation(model.activation).homogeneous else _PURSUIT_PASSES * one_pass


def _trained_weights(subject: Subject) -> int:
    """Weights that training changed or may have changed."""
    release = subject.release
    if release.features_stayed:
        return release.p * release.k
    moved = (v for name, v in release.trained.items() if name not in release.initial or not torch.equal(v, release.initial[name]))
    return sum(value.numel() for value in moved)


def _drift(subject: Subject) -> float | None:
    """||Phi_T - Phi_0|| / ||Phi_0|| on the training rows, where the start is known."""
    release = subject.release
    if not release.trained:
        return 0.0
    if set(release.initial) != set(release.trained):
        return None
    rows = subject.rows_for(subject.truth.rows)
    before, after = (
        release.network.features_at(side, dtype=torch.float64).value(rows) for side in (release.initial, release.trained)
    )
    return float((after - before).norm() / before.norm())


def _first_layer(subject: Subject) -> dict[str, Any]:
    """What the first-layer attack would read: units per sample, noise, and what to expect of it."""
    release, nothing = subject.release, {"hidden_per_sample": None, "first_layer_noise": None, "first_layer_outcome": None}
    if not release.trained or not release.network.relu_behind_first or (layer := first_layer_change(release)) is None:
        return nothing
    if not len(layer.change):
        return nothing
    values, n = layer.spectrum, subject.truth.n
    rank = rank_by_gap(values, layer.rounding)
    told = expect_first_layer(len(layer.change), layer.change.shape[1], n)
    return {
        "hidden_per_sample": layer.units / n,
        "first_layer_noise": None if rank is None else float(values[rank:].norm() / values.norm()),
        "first_layer_outcome": told.outcome if rank is not None else "impossible",
    }


def _first_layer_rank(subject: Subject) -> int | None:
    first = subject.release.first_layer()
    if first is None or torch.equal(*first):
        return None
    before, after = first
    return int(row_space((after - before).flatten(1)).shape[1])


def _identifiable(subject: Subject) -> tuple[str, str]:
    """Whether sign and length of a row leave a trace, in words."""
    model, facts = subject.release.model, subject.release.facts
    if not model.one_hidden_layer:
        scale = "lost: the network is homogeneous" if model.homogeneous else "in the features"
        return "in the features", scale if not (facts.one_hot or facts.label_size) else "from fitted labels"
    reading = read_activation(activation(model.activation))
    sign = reading.sign_reason if reading.sign_identifiable else f"hidden: {reading.sign_reason}"
    if subject.constant:
        return sign, "read off the biases"
    if reading.scale_identifiable:
        return sign, reading.scale_reason
    if facts.one_hot or facts.label_size:
        return sign, "from labels that are fitted and of known size"
    return sign, "from the range of pixels" if facts.input_range else f"lost: {reading.scale_reason}"
