"""Sure without the truth: residual at the floor, more equations than unknowns, an error bar per row, n from the cliff."""

from __future__ import annotations

import math

import torch

from exhume.attacks.span import SpanProblem, State
from exhume.linalg import streams
from exhume.linalg.precision import cholesky, precision
from exhume.result import Certificate, Status

# Equations per unknown that a certificate demands: at one or below, some rows always fit.
MARGIN = 1.1
_PROBES = 3


def cliff(problem: SpanProblem, state: State, seed: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Removal costs of the rows found, and of spare rows added on top: the drop between the two says that n is complete."""
    spare = streams.random_directions(_PROBES, problem.d, seed=seed, purpose="probes").to(state.X)
    scale = problem.radius if problem.radius is not None else math.sqrt(problem.d)
    probed = problem.state(torch.cat([state.X, spare * scale]))
    costs = problem.removal_costs(probed)
    return tuple(costs[: state.m].tolist()), tuple(costs[state.m :].tolist())


def row_errors(problem: SpanProblem, state: State) -> tuple[float, ...]:
    """Relative standard error of each row: sigma^2 (J^T J)^-1 with the n x n curvature, sigma at least rounding."""
    free = problem.p * problem.k - unknowns(problem, state)
    rounding = torch.finfo(problem.dtype).eps ** 2
    variance = max(state.loss, rounding) * problem.energy / max(1, free)
    curvature = problem.row_curvature(state)
    inverse = torch.cholesky_inverse(cholesky(curvature, jitter=precision(problem.dtype).jitter)).diagonal()
    norms = state.X.double().norm(dim=1)
    return tuple((torch.sqrt(variance * inverse * problem.d) / norms).tolist())


def unknowns(problem: SpanProblem, state: State) -> int:
    """Free coordinates of the rows plus one coefficient per row and output."""
    per_row = problem.d - (problem.radius is not None) + problem.k
    return state.m * per_row


def certify(problem: SpanProblem, state: State, *, costs: tuple[float, ...], spare: tuple[float, ...]) -> Certificate:
    """The certificate of a final state on all features."""
    return Certificate(
        equations=problem.p * problem.k,
        unknowns=unknowns(problem, state),
        loss=state.loss,
        floor=precision(problem.dtype).certified,
        row_errors=row_errors(problem, state),
        weakest_row=min(costs),
        strongest_spare=max(spare, default=None),
    )


def judge(proof: Certificate, *, d: int, converged: bool) -> tuple[Status, str]:
    """Status and one sentence of why."""
    count = f"{proof.equations} equations for {proof.unknowns} unknowns"
    enough = proof.margin >= MARGIN
    if proof.loss <= proof.floor and enough:
        return Status.CERTIFIED, f"the loss is at the rounding floor with {count}: a chance fit is impossible"
    if proof.loss <= proof.floor:
        return (
            Status.UNCERTIFIED,
            f"the loss is zero but {count} would fit anything: more parameters than d*n are needed",
        )
    if not converged and proof.equations < 2 * d * max(1, proof.unknowns // max(1, d)) * MARGIN:
        return Status.STALLED, (
            f"the loss stays at {proof.loss:.1e} with as many rows as {proof.equations} equations can pin down: "
            "p is probably not above d*n"
        )
    return Status.STALLED, f"the loss stays at {proof.loss:.1e}: a local minimum; try another --seed or more --starts"
