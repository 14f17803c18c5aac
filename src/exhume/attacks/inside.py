"""The span problem inside a subspace of the inputs, beyond the quadratic part of the features.

With x = Q z the features of z are act((V Q) z): the problem keeps its form and costs dim(z) / d as much, and what lies outside
the subspace acts as noise. The first Hermite terms of the features tell only sums over all samples, c2 sum_i alpha_i x_i x_i^T
and the like, and hold most of the energy: a few rows fitted to many samples bend towards those sums. Without them,
act_{>2}(t) = act(t) - c0 - c1 t - c2 h2(t), features of different samples are nearly orthogonal, each sample is a maximum of
|<theta, act_{>2}(V z)>| by itself, and rows are found one after the other.
"""

from __future__ import annotations

import math

import torch

from exhume.attacks.span import SpanProblem
from exhume.features import MatrixFeatures, beyond_quadratic
from exhume.linalg import streams
from exhume.linalg.cg import Group, conjugate_gradients

# Most steps of conjugate gradients for the quadratic part, whose Gram is nearly a multiple of the identity; and where they may end.
_QUADRATIC_STEPS, _EXACT = 4, 1e-10
# Ascents per row that is asked for, and the lengths of their steps relative to the radius.
_ASCENTS, _STEPS = 3, (0.5,) * 3 + (0.25,) * 3
# Ascents that end with a larger |cosine| have met at one maximum.
_MET = 0.9


class InsideProblem(SpanProblem):
    """theta (p, k) beyond its quadratic part, in the span of features of x = Q z beyond theirs; suggests rows by ascent."""

    def __init__(self, problem: SpanProblem, theta: torch.Tensor, Q: torch.Tensor) -> None:
        assert problem.radius is not None
        act = beyond_quadratic(problem.features.activation, scale=problem.radius / math.sqrt(problem.d))
        features = MatrixFeatures.projected(problem.features, Q, problem.p, act)
        fits = [quadratic_fit(features, column, problem.d) for column in theta.T]
        super().__init__(features, torch.stack([rest for _, rest in fits]), radius=problem.radius, nuisance=True)
        # Samples point where the second moment is large: ascents begin there, and mistrust the other directions.
        values, vectors = torch.linalg.eigh(sum(_absolute(M) for M, _ in fits))
        self._likely = ((vectors * values) @ vectors.T).to(self.dtype)
        self._root_likely = ((vectors * values.clamp(min=0).sqrt()) @ vectors.T).to(self.dtype)

    def suggest(self, vector: torch.Tensor, count: int, *, seed: int, key: int) -> torch.Tensor:
        """At most `count` rows at maxima of |<vector, features(z)>|, strongest first."""
        assert self.radius is not None
        act = self.features.activation
        Z = streams.random_directions(_ASCENTS * count, self.d, seed=seed, purpose="rows", block=key)
        Z = self.on_sphere(Z.to(self.device, self.dtype) @ self._root_likely)
        correlation = Z[:, 0]
        for length in (*_STEPS, 0.0):
            correlation, gradient = torch.zeros_like(correlation), torch.zeros_like(Z)
            for block in self.blocks():
                T, weight = block.V @ Z.T, vector[block.rows]
                correlation += weight @ act.value(T)
                gradient += act.slope(T).mul_(weight[:, None]).T @ block.V
            correlation, gradient = self.total(correlation), self.total(gradient)
            uphill = self.tangent(Z, (gradient * correlation.sign()[:, None]) @ self._likely)
            Z = self.on_sphere(Z + uphill * (length * self.radius / uphill.norm(dim=1, keepdim=True)))
        self.passes += 2 * _ASCENTS * (len(_STEPS) + 1)
        U, chosen = Z / self.radius, list[int]()
        met = (U @ U.T).abs() > _MET
        for i in correlation.abs().argsort(descending=True).tolist():
            if len(chosen) < count and not met[i, chosen].any():
                chosen.append(i)
        return Z[chosen]


def quadratic_fit(features: MatrixFeatures, vector: torch.Tensor, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(M, vector - q(M)) of the best fit q(M)_k = d v_k^T M v_k - tr M, for rows v_k of V whose entries have variance 1/d."""
    total = features.team.total
    identity = torch.eye(features.d, dtype=torch.float64, device=features.device)

    def values(M: torch.Tensor) -> torch.Tensor:
        image, small = torch.empty_like(vector), (d * M).to(features.dtype)
        for block in features.blocks():
            image[block.rows] = ((block.V @ small) * block.V).sum(1)
        return image - torch.trace(M).to(features.dtype)

    def moment(v: torch.Tensor) -> torch.Tensor:
        image = torch.zeros_like(identity)
        for block in features.blocks():
            image += block.V.T @ (block.V * v[block.rows, None])
        return d * total(image) - total(v.double().sum()) * identity

    def product(M: Group) -> Group:
        return (moment(values(M[0])),)

    (M,) = conjugate_gradients(product, (moment(vector),), lambda r: r, steps=_QUADRATIC_STEPS, tolerance=_EXACT)
    return M, vector - values(M)


def _absolute(M: torch.Tensor) -> torch.Tensor:
    values, vectors = torch.linalg.eigh(M)
    return (vectors * values.abs()) @ vectors.T
