"""Sure without the truth: residual at the floor, more equations than unknowns, an error bar per row, n from the cliff."""

from __future__ import annotations

import torch

from exhume.attacks.proof.duplicate_rows import SEPARATE, crossings, repeated
from exhume.attacks.span.problem import Span, State
from exhume.counting import MARGIN
from exhume.linalg import streams
from exhume.linalg.precision import cholesky, precision
from exhume.result import Certificate, Status

# A row whose standard error is above this share of its norm is not pinned down.
VAGUE = 0.02
# A row that matters less than this many times the floor proves nothing: many of them can imitate a row that is not there.
# Nor does a combination of outputs with so little of the weights' energy: rounding gives dependent outputs as much.
_STANDS_OUT = 100.0
# Random rows that are added on top of those found, to see that a further one does not matter.
_SPARE_ROWS = 3


def cliff(problem: Span, state: State, seed: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Removal costs of the rows found, and of spare rows added on top: each row found matters, a further one does not."""
    spare = streams.random_directions(_SPARE_ROWS, problem.d, seed=seed, purpose="spare rows").to(state.X)
    probed = problem.state(state.with_rows(torch.cat([state.X, spare * problem.typical_norm])))
    costs = problem.removal_costs(probed)
    return tuple(costs[: state.m].tolist()), tuple(costs[state.m :].tolist())


def row_errors(problem: Span, state: State) -> tuple[float, ...]:
    """Relative standard error of each row: sigma^2 (J^T J)^-1 with the n x n curvature, sigma at least rounding."""
    free = problem.equations - problem.unknowns(state.m)
    rounding = torch.finfo(problem.dtype).eps ** 2
    variance = max(state.loss, rounding) * problem.energy / max(1, free)
    curvature = problem.row_curvature(state)
    inverse = torch.cholesky_inverse(cholesky(curvature, jitter=precision(problem.dtype).jitter)).diagonal()
    norms = state.X.double().norm(dim=1)
    return tuple((torch.sqrt(variance * inverse * problem.d) / norms).tolist())


def equations(problem: Span, state: State) -> int:
    """Features that say something times independent outputs."""
    theta = problem.theta.double()
    spectrum = torch.linalg.eigvalsh(problem.total(theta.T @ theta))
    return problem.informative(state) * int((spectrum > _STANDS_OUT * precision(problem.dtype).certified * spectrum[-1]).sum())


def certify(problem: Span, state: State, *, costs: tuple[float, ...], spare: tuple[float, ...]) -> Certificate:
    """The certificate of a final state on all features."""
    return Certificate(
        equations=equations(problem, state),
        unknowns=problem.unknowns(state.m),
        loss=state.loss,
        floor=precision(problem.dtype).certified,
        row_errors=row_errors(problem, state),
        weakest_row=min(costs),
        strongest_spare=max(spare, default=None),
        separation=_separation(problem, state),
    )


def _separation(problem: Span, state: State) -> float:
    """The least share of the expected hyperplanes between two rows that lies there.

    None lies between rows of free norms on one line, and three of them can stand for one sample: where phi(z) + phi(-z) = |z|,
    as for relu+tanh, c phi(x) = phi(c x) + phi(-c x) - c phi(-x) for every c.
    """
    on_one_line = problem.radius is None and int(repeated(state.X).sum()) > state.m
    return 0.0 if on_one_line else float(crossings(problem, state).min())


def judge(proof: Certificate, *, converged: bool) -> tuple[Status, str]:
    """Status and one sentence of why."""
    count = f"{proof.equations} equations for {proof.unknowns} unknowns"
    if proof.loss > proof.floor:
        if not converged and proof.margin < 2 * MARGIN:
            return Status.STALLED, (
                f"the loss stays at {proof.loss:.1e} with as many rows as {proof.equations} equations can pin down: "
                "p is probably not above d*n"
            )
        return Status.STALLED, f"the loss stays at {proof.loss:.1e}: a local minimum; try another --seed or more --starts"
    if proof.margin < MARGIN:
        return Status.UNCERTIFIED, f"the loss is zero but {count} would fit anything: more parameters than d*n are needed"
    doubt = _doubt(proof)
    if doubt is not None:
        return Status.UNCERTIFIED, doubt
    return Status.CERTIFIED, f"the loss is at the rounding floor with {count}: a chance fit is impossible"


def _doubt(proof: Certificate) -> str | None:
    """Why rows that fit exactly, with enough equations, may still not be samples."""
    if proof.separation < SEPARATE:
        return "two rows lie nearly in one linear cell of the features, or on one line: a sample split in pieces would fit as well"
    vague = sum(error > VAGUE for error in proof.row_errors)
    if vague:
        return f"the loss is zero but {vague} of {len(proof.row_errors)} rows have error bars above {VAGUE:.0%}"
    if proof.weakest_row < _STANDS_OUT * proof.floor:
        weak = f"the weakest row costs {proof.weakest_row:.1e} of loss to remove, no more than rounding could"
        return f"the loss is zero but {weak}: several such rows may stand in for one sample"
    return None


def judge_noisy(proof: Certificate, *, noise: float) -> tuple[Status, str]:
    """Status of a fit to a drifting network: its loss has a floor, so rows are told by costing more than `noise` to remove."""
    if proof.margin < MARGIN:
        return Status.STALLED, f"only {proof.margin:.2f} equations per unknown: more parameters than d*n are needed"
    if proof.weakest_row < noise:
        return Status.STALLED, f"the weakest row does not stand out of the noise that a loss of {proof.loss:.1e} leaves"
    if proof.loss > proof.floor:
        strength = f"the weakest row stands {proof.weakest_row / noise:.0f} times above the noise"
        return Status.UNCERTIFIED, f"drift or rounding leaves a loss of {proof.loss:.1e}, so nothing is proved; {strength}"
    return judge(proof, converged=True)
