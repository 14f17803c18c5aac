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

from exhume.attacks.search import strongest
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.features import MatrixFeatures, beyond, polynomial_part
from exhume.linalg import streams
from exhume.linalg.cg import Group, conjugate_gradients

# Most steps of conjugate gradients for the quadratic part, whose Gram is nearly a multiple of the identity; and where they may end.
_QUADRATIC_STEPS, _EXACT = 4, 1e-10
# Ascents per row that is asked for, and the lengths of their steps relative to the radius.
_ASCENTS, _STEPS = 3, tuple(length for length in (1.0, 0.5, 0.25, 0.12) for _ in range(6))
# Features per dimension that carry an ascent: more cost more than they show.
_CLIMB = 800
# Ascents that end with a larger |cosine| have met at one maximum.
_MET = 0.9


class InsideProblem(SpanProblem):
    """theta (p, k) beyond its quadratic part, in the span of features of x = Q z beyond theirs; suggests rows by ascent."""

    def __init__(self, problem: SpanProblem, theta: torch.Tensor, Q: torch.Tensor) -> None:
        assert problem.radius is not None
        scale = problem.radius / math.sqrt(problem.d)
        act = beyond(problem.features.activation, order=2, scale=scale)
        features = MatrixFeatures.projected(problem.features, Q, problem.p, act)
        fits = [quadratic_fit(features, column, problem.d) for column in theta.T]
        super().__init__(features, torch.stack([rest for _, rest in fits]), radius=problem.radius, nuisance=True)
        self._moments = [M for M, _ in fits]
        # The quadratic part of a feature is that of M = z z^T times this.
        self._square = polynomial_part(problem.features.activation, order=2, scale=scale)[2] / problem.d

    def suggest(self, state: State | None, count: int, *, seed: int, key: int) -> torch.Tensor:
        """At most `count` rows at maxima of |<residual, features(z)>|, strongest first; without a state, of theta."""
        assert self.radius is not None
        act, likely = self.features.activation, self._likely(state)
        vector = strongest(self, self.theta if state is None else state.residual)
        Z = streams.random_directions(_ASCENTS * count, self.d, seed=seed, purpose="rows", block=key)
        Z = self.on_sphere(Z.to(self.device, self.dtype) @ likely)
        share = min(1.0, _CLIMB * self.d / self.p)
        climb = [block for block in self.blocks() if block.rows.start < share * len(self.theta)]
        for length in _STEPS:
            correlation, gradient = torch.zeros_like(Z[:, 0]), torch.zeros_like(Z)
            for block in climb:
                T, weight = block.V @ Z.T, vector[block.rows]
                correlation += weight @ act.value(T)
                gradient += act.slope(T).mul_(weight[:, None]).T @ block.V
            correlation, gradient = self.total(correlation), self.total(gradient)
            uphill = self.tangent(Z, (gradient * correlation.sign()[:, None]) @ likely)
            Z = self.on_sphere(Z + uphill * (length * self.radius / uphill.norm(dim=1, keepdim=True)))
        correlation = self.total(sum(vector[block.rows] @ act.value(block.V @ Z.T) for block in self.blocks()))  # type: ignore[arg-type]
        self.passes += _ASCENTS * (1 + math.ceil(2 * share * len(_STEPS)))
        U, chosen = Z / self.radius, list[int]()
        met = (U @ U.T).abs() > _MET
        for i in correlation.abs().argsort(descending=True).tolist():
            if len(chosen) < count and not met[i, chosen].any():
                chosen.append(i)
        return Z[chosen]

    def _likely(self, state: State | None) -> torch.Tensor:
        """|M|^{1/2} of the second moment M that the rows leave: what is missing points where it is large."""
        left = torch.zeros_like(self._moments[0])
        for k, M in enumerate(self._moments):
            if state is not None:
                Z = state.X.double()
                M = M - self._square * Z.T @ (state.alpha[:, k, None] * Z)
            values, vectors = torch.linalg.eigh(M)
            left += (vectors * values.abs()) @ vectors.T
        values, vectors = torch.linalg.eigh(left)
        return ((vectors * values.clamp(min=0).sqrt()) @ vectors.T).to(self.dtype)


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
