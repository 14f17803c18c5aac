"""A start for inputs of many dimensions: the search inside a subspace that the weights reveal, which is refreshed as rows appear.

The first subspace is that of the weights' second moment; later ones hold the rows found so far, where the full gradient would
take them, and the second moment of what they leave unexplained. A search inside ends at a high loss, since what lies outside
acts as noise, but with about the right rows to go on from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from exhume.attacks import noisy
from exhume.attacks.inside import InsideProblem
from exhume.attacks.noisy import Step
from exhume.attacks.search import APART, Pace, Plan, distinct_rows, noise_gain, strongest
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.linalg import streams
from exhume.linalg.moments import krylov_basis

# Directions of the second moment: columns of the random start, and powers.
_WIDTH, _POWERS = 28, 8
# The subspace pays when the inputs have at least this many times its dimension.
_PAYS = 3
# New rows per round as a share of those that stand out of the noise, and at least; a round must show this many times as many.
_GROWTH, _LEAST, _MORE = 0.75, 4, 1.1
_PACE = Pace(growth=0.0, least=0, patience=2, gain=0.97)
# A row stays when its removal costs this multiple of what a row fitted to noise would cost.
_SIGNIFICANT = 4.0
# The rows are near: full-space steps may begin less damped than from afar.
DAMPING = 0.02


def dimension(d: int) -> int:
    """Dimension of the subspace for inputs of d dimensions; 0 where it would not pay."""
    size = _WIDTH * (_POWERS + 1)
    return size if d >= _PAYS * size else 0


def afterwards(plan: Plan) -> Plan:
    """The plan of the full-space search: rows from inside are samples, weak ones too, and those missing are worth a look soon."""
    return replace(plan, turnover=0.0, first_pace=Pace(growth=0.1, least=2, patience=2, gain=0.85))


@dataclass(frozen=True)
class Inside:
    """A search inside a subspace, to go on from: its basis and its last finished step."""

    Q: torch.Tensor  # (d, r)
    step: Step
    before: int  # rows that were known when the subspace was refreshed; 0: it is the first


def search_inside(
    problem: SpanProblem,
    *,
    rows: int,
    limit: int,
    plan: Plan,
    seed: int,
    report: Callable[[Inside, State], None],
    found: State | None = None,
    resumed: Inside | None = None,
) -> torch.Tensor:
    """Rows (m, d) from inside a subspace, grown from `rows` of them, or from those `found`, to at most `limit`."""
    before = found.m if found is not None else 0 if resumed is None else resumed.before
    Q = resumed.Q if resumed is not None else _subspace(problem, found, seed).contiguous()  # as a checkpoint restores it
    inner = InsideProblem(problem, problem.theta_without_nuisance(), Q)
    if resumed is not None:
        at = resumed.step
    else:
        first = inner.suggest(None, rows, seed=seed, key=0) if found is None else found.X @ Q
        at = Step(noisy.settling(inner.on_sphere(first)))
    while True:

        def note(step: Step, state: State, last: int = at.last) -> None:
            report(Inside(Q, replace(step, last=last), before), replace(state, X=state.X @ Q.T))

        state = noisy.settle(inner, at.search, plan, note, _PACE)
        keep = _significant(inner, state)
        count = min(limit - len(keep), max(_LEAST, int(_GROWTH * len(keep))))
        # After a refresh one round of new rows will do: the next refresh shows more than another round.
        if count < 1 or len(keep) < _MORE * at.last or (before and at.last):
            break
        key = at.search.round + 1
        fresh = inner.suggest(state, count, seed=seed, key=key)
        at = Step(replace(noisy.settling(torch.cat([state.X[keep], fresh])), round=key), last=len(keep))
    problem.passes += 1 + -(-inner.passes * inner.d // problem.d)
    return problem.on_sphere(state.X[keep] @ Q.T).contiguous()


def _significant(problem: InsideProblem, state: State) -> torch.Tensor:
    """Indices of distinct rows whose removal costs more than that of rows fitted to noise, costliest first; two at least."""
    costs = problem.removal_costs(state)
    distinct = distinct_rows(state.X, costs, apart=APART)
    return distinct[: max(2, int((costs[distinct] > _SIGNIFICANT * noise_gain(problem, state)).sum()))]


def _subspace(problem: SpanProblem, found: State | None, seed: int) -> torch.Tensor:
    """Orthonormal (d, r): the moment subspace of theta, or of what the rows found leave, with those rows and their gradient."""
    if found is None:
        return _moment_basis(problem, strongest(problem, problem.theta_without_nuisance()), _POWERS, seed)
    moments = _moment_basis(problem, strongest(problem, found.residual), _POWERS // 2, seed)
    return torch.linalg.qr(torch.cat([found.X.T, found.gradient.T, moments], dim=1).double())[0].to(problem.dtype)


def _moment_basis(problem: SpanProblem, vector: torch.Tensor, powers: int, seed: int, key: int = 0) -> torch.Tensor:
    start = streams.random_directions(problem.d, _WIDTH, seed=seed, purpose="krylov", block=key).to(problem.device)
    return krylov_basis(lambda W: problem.moment_product(vector, W), start, powers)[0].to(problem.dtype)
