"""A start for inputs of many dimensions: the same search inside the subspace that the weights' second moment reveals.

With x = Q z the features of z are act((V Q) z), so the problem keeps its form and costs dim(z) / d as much. What lies
outside the subspace acts as noise: the search there ends at a high loss, but with about the right rows to go on from.
"""

from __future__ import annotations

import torch

from exhume.attacks import search
from exhume.attacks.search import Plan
from exhume.attacks.span import SpanProblem
from exhume.features import ProjectedFeatures, RandomFeatures
from exhume.linalg import streams
from exhume.linalg.moments import krylov_basis

_WIDTH, _STEPS = 28, 8
# The subspace pays when the inputs have at least this many times its dimension.
_PAYS = 3
# Further rows must lower the loss by this share, and by this multiple of the share that a fit to noise would gain.
_GAIN, _NOISE = 0.08, 4.0


def dimension(d: int) -> int:
    """Dimension of the subspace for inputs of d dimensions; 0 where it would not pay."""
    size = _WIDTH * (_STEPS + 1)
    return size if d >= _PAYS * size else 0


def moment_start(problem: SpanProblem, *, rows: int, limit: int, plan: Plan, seed: int) -> torch.Tensor:
    """Rows (m, d) found inside the moment subspace, starting from `rows` of them and growing to at most `limit`."""
    assert isinstance(problem.features, RandomFeatures)
    theta = problem.theta_without_nuisance()
    start = streams.random_directions(problem.d, _WIDTH, seed=seed, purpose="krylov").to(problem.device)
    vector = search.strongest(theta)
    Q = krylov_basis(lambda W: problem.moment_product(vector, W), start, _STEPS)[0].to(problem.dtype)
    features = ProjectedFeatures(problem.features, Q, problem.p)
    inner = SpanProblem(features, theta.T, radius=problem.radius, nuisance=True)
    now = search.begin(inner, rows=min(rows, limit), seed=seed)
    state, level, last = inner.state(now.X), float("inf"), 0
    while now.stage == "grow":
        before, now, found = now, *search.advance(inner, state, now, plan, limit=limit, first_rows=rows, seed=seed)
        if now.round > before.round or now.attempt > before.attempt:  # the rows of `state` can do no better
            noise = (state.m - last) * inner.d / inner.p
            if state.loss > (1 - max(_GAIN, _NOISE * noise)) * level or state.m >= limit:
                state = found
                break
            level, last = state.loss, state.m
        state = found
    problem.passes += 1 + -(-inner.passes * inner.d // problem.d)
    return problem.on_sphere(state.X @ Q.T).contiguous()
