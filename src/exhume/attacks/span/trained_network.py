"""The span problem of a trained network: which features, which change of the last layer, which inputs it allows.

During training the features move from phi_0 to phi_T, and the last layer collects gradients all along. To first order both
layers move in step, so the collected features are those of the *midpoint* (theta_0 + theta_T) / 2, not of either end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from exhume.architectures import NetworkSpec
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.module import ModuleSpan
from exhume.attacks.span.problem import Span
from exhume.features import MatrixFeatures, ModuleFeatures
from exhume.linalg.numerical_rank import rank_by_gap
from exhume.linalg.pass_counter import PassCounter
from exhume.release import Release

# Where features can be taken on the way of the weights from theta_0 to theta_T, as a share of that way.
LINEARISATION_POINTS = {"midpoint": 0.5, "trained": 1.0, "initial": 0.0}
# Nuisance columns [1, V] pay while they are at most this share of the features.
_NUISANCE_SHARE = 1 / 3
# A ratio of neighbouring singular values of dW1 that ends the data's subspace.
_GAP = 30.0
# Rounded weights fill the rest of the spectrum with noise. Values above _SIGNAL times the median stand out of it, ...
_SIGNAL = 2.0
# ... provided that the noise ends below _BULK times its median.
_BULK = 1.5
# Rounds of (subspaces from what the decay leaves, decay from what lies outside of them).
_DECAY_ROUNDS = 12
# Up to this size of the smaller side a first estimate of the decay comes from eigenvalues, which takes seconds at most.
_MOST_EIGENVALUES = 600
# Patch cost per place, of a unit input, that counts as zero.
_NULL = 1e-8


@dataclass(frozen=True)
class Learned:
    """A network's parameters before and after training, and how much of the start weight decay has left."""

    trained: Mapping[str, torch.Tensor]
    initial: Mapping[str, torch.Tensor]
    kept: float = 1.0  # c with theta_T = c theta_0 + what was learned

    def change(self, name: str) -> torch.Tensor:
        """What was learned: theta_T - c theta_0, or theta_T where theta_0 is not known."""
        return self.trained[name] - self.kept * self.initial[name] if name in self.initial else self.trained[name]

    def at(self, point: str) -> dict[str, torch.Tensor]:
        """All parameters at a linearisation point; decay belongs to the point, not to what was learned."""
        share = LINEARISATION_POINTS[point]
        return {name: end - (1 - share) * self.change(name) if name in self.initial else end for name, end in self.trained.items()}


def learned(release: Release) -> Learned:
    """What training did; c is the regression of W_T on W_0 outside the subspace that the first layer has learned."""
    plain, first = Learned(release.trained, release.initial), release.first_layer()
    if release.facts.ridge == 0 or first is None:
        return plain
    start, end = (weight.flatten(1).double() for weight in first)
    return replace(plain, kept=_kept(start, end, release.trained[release.network.first_weight or ""].dtype))


def _kept(start: torch.Tensor, end: torch.Tensor, dtype: torch.dtype) -> float:
    """c with end = c start + a matrix of low rank: the regression of one on the other outside that matrix's row *and* column space.

    An error of c moves both spaces in proportion. What is left outside of both is then the error itself, to second order.
    """
    kept = _first_estimate(start, end)
    for _ in range(_DECAY_ROUNDS):
        U, values, Vt = torch.linalg.svd(end - kept * start, full_matrices=False)
        rank = _rank(values, torch.finfo(dtype).eps)
        rank = rank if rank < len(values) else 0  # no subspace yet: decay hides it

        def outside(matrix: torch.Tensor, U: torch.Tensor = U[:, :rank], Vt: torch.Tensor = Vt[:rank]) -> torch.Tensor:
            left = matrix - U @ (U.T @ matrix)
            return left - (left @ Vt.T) @ Vt

        before, rest = kept, outside(start)
        kept += float((rest * outside(end - kept * start)).sum() / rest.square().sum())
        if abs(kept - before) < torch.finfo(torch.float64).eps:
            break
    return kept


def _first_estimate(start: torch.Tensor, end: torch.Tensor) -> float:
    """c from the eigenvalues of the map from one matrix to the other: all but a few are c, so it is where they lie most densely."""
    if min(start.shape) > _MOST_EIGENVALUES:
        return float((start * end).sum() / start.square().sum())
    tall = start.shape[0] >= start.shape[1]
    mapped = torch.linalg.pinv(start) @ end if tall else end @ torch.linalg.pinv(start)
    values = torch.linalg.eigvals(mapped).real.sort().values
    width = max(2, len(values) // 5) - 1
    if len(values) <= width:
        return float(values.median())
    densest = int((values[width:] - values[: len(values) - width]).argmin())
    return float(values[densest : densest + width + 1].median())


def row_space(change: torch.Tensor) -> torch.Tensor:
    """Orthonormal basis (c, r) of what the rows of dW1 span; r from the largest gap in the spectrum."""
    _, values, vectors = torch.linalg.svd(change.double(), full_matrices=False)
    return vectors[: _rank(values, torch.finfo(change.dtype).eps)].T.to(change.dtype)


def _rank(values: torch.Tensor, rounding: float) -> int:
    """Singular values before the largest gap, or above a flat bulk, or above rounding."""
    rank = rank_by_gap(values, rounding, gap=_GAP)
    return rank or _rank_above_noise(values) or int((values > 10 * rounding * values[0]).sum())


def _rank_above_noise(values: torch.Tensor) -> int:
    """Singular values above a flat bulk, as rounded or noised weights leave it; 0 where there is none."""
    level = float(values.median())
    rank = int((values > _SIGNAL * level).sum())
    if not 0 < rank <= len(values) // 2:
        return 0
    return rank if values[rank] < _BULK * level and values[rank - 1] > _BULK * values[rank] else 0


def input_space(change: torch.Tensor, spec: NetworkSpec) -> torch.Tensor:
    """Orthonormal basis (d, r) of the inputs that dW1 allows: its row space, or for a convolution all inputs whose every
    patch lies in it."""
    Q = row_space(change.flatten(1))
    if change.ndim == 2:
        return Q
    assert spec.first is not None
    stem = spec.graph().get_submodule(spec.first)
    assert isinstance(stem, torch.nn.Conv2d)
    assert not isinstance(stem.padding, str)
    # Patches E_j x outside the span cost ||(I - Q Q^T) E_j x||^2; the inputs that cost nothing are the null space of the sum.
    numbers = torch.arange(1.0, spec.d + 1).double().reshape(1, *spec.input_shape)  # 0 is left for the padding
    patches = torch.nn.functional.unfold(numbers, stem.kernel_size, padding=stem.padding, stride=stem.stride)[0].long()
    outside = torch.eye(Q.shape[0], dtype=torch.float64) - (Q @ Q.T).double()
    cost = torch.zeros(spec.d, spec.d, dtype=torch.float64)
    for place in patches.T:
        inside = place > 0
        pixels = place[inside] - 1
        cost[pixels[:, None], pixels] += outside[inside][:, inside]
    values, vectors = torch.linalg.eigh(cost)
    return vectors[:, values < _NULL * patches.shape[1]].to(change.dtype)


def network_problem(
    release: Release,
    course: Learned,
    *,
    point: str,
    device: torch.device,
    basis: torch.Tensor | None = None,
    nuisance: bool = True,
    passes: PassCounter | None = None,
) -> Span:
    """theta_T - c theta_0 of the last layer against the features at the linearisation point, pruned ones left out."""
    spec, dtype, norm = release.network, release.weights.dtype, release.facts.input_norm
    theta, parameters = course.change(spec.head_weight), course.at(point)
    radius, alive = norm if norm is not None else math.sqrt(release.d), release.alive
    if not spec.one_hidden_layer:
        module = spec.module(parameters)
        features = ModuleFeatures(module, spec.input_shape, dtype=dtype, device=device, basis=basis, alive=alive)
        return ModuleSpan(features, theta[:, alive], radius=radius, passes=passes)
    matrix = MatrixFeatures.of_layer(parameters, spec.activation, alive=alive, device=device, dtype=dtype)
    if basis is not None:
        matrix = matrix.projected(basis)
    pays = nuisance and matrix.d + 1 <= _NUISANCE_SHARE * matrix.p
    return BlockwiseSpan(matrix, theta[:, alive], radius=radius, nuisance=pays, passes=passes)
