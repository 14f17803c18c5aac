"""A start for inputs of many dimensions: the same search inside the subspace that the weights' second moment reveals.

With x = Q z the features of z are act((V Q) z), so the problem keeps its form and costs dim(z) / d as much. What lies
outside the subspace acts as noise: the search there ends at a high loss, but with about the right rows to go on from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from exhume.attacks import search
from exhume.attacks.noisy import Step, grow_to_noise
from exhume.attacks.search import Plan, Search
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.features import MatrixFeatures
from exhume.linalg import streams
from exhume.linalg.moments import krylov_basis

_WIDTH, _STEPS = 28, 8
# The subspace pays when the inputs have at least this many times its dimension.
_PAYS = 3
# A row too many is pruned later, a row too few costs a round of full-space steps.
_CAUTION = 4.0
# The rows are near: full-space steps may begin less damped than from afar.
DAMPING = 0.02


def dimension(d: int) -> int:
    """Dimension of the subspace for inputs of d dimensions; 0 where it would not pay."""
    size = _WIDTH * (_STEPS + 1)
    return size if d >= _PAYS * size else 0


@dataclass(frozen=True)
class Inside:
    """A search inside the subspace, to go on from: its basis and its last finished step."""

    Q: torch.Tensor  # (d, r)
    step: Step


def moment_start(
    problem: SpanProblem,
    *,
    rows: int,
    limit: int,
    plan: Plan,
    seed: int,
    report: Callable[[Inside, State], None],
    found: torch.Tensor | None = None,
    resumed: Inside | None = None,
) -> torch.Tensor:
    """Rows (m, d) found inside the moment subspace, growing from `rows` of them, or from those `found`, to at most `limit`."""
    theta = problem.theta_without_nuisance()
    if resumed is None:
        start = streams.random_directions(problem.d, _WIDTH, seed=seed, purpose="krylov").to(problem.device)
        vector = search.strongest(problem, theta)
        Q = krylov_basis(lambda W: problem.moment_product(vector, W), start, _STEPS)[0].to(problem.dtype)
    else:
        Q = resumed.Q
    features = MatrixFeatures.projected(problem.features, Q, problem.p)
    inner = SpanProblem(features, theta.T, radius=problem.radius, nuisance=True)
    step = None if resumed is None else resumed.step
    if step is None and found is not None:
        step = Step(Search(inner.on_sphere(found @ Q).contiguous()))
    state = grow_to_noise(
        inner,
        rows=rows,
        limit=limit,
        plan=plan,
        seed=seed,
        report=lambda step, state: report(Inside(Q, step), replace(state, X=state.X @ Q.T)),
        caution=_CAUTION,
        resumed=step,
    )
    problem.passes += 1 + -(-inner.passes * inner.d // problem.d)
    return problem.on_sphere(state.X @ Q.T).contiguous()
