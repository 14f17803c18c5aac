"""Rounds between the full space and a subspace: how the last rows are found among inputs of many dimensions.

The rows still missing are weak ones, and those found bend to stand in for them: all must move together while new ones come
in, which in the full space takes many dear steps. A round makes them inside a subspace, where they cost dim(Q) / d as much:
Q holds the rows, where the full gradient would take them, how they moved last, and the directions in which the second moment
of the residual stands out. New rows start at that moment's eigenvectors; those that explain no more than noise go again. One
step in the full space ends the round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from exhume.attacks import noisy, search
from exhume.attacks.noisy import Step
from exhume.attacks.search import APART, Pace, Plan, Search, distinct_rows, strongest
from exhume.attacks.span import SpanProblem
from exhume.attacks.span_base import State
from exhume.features import MatrixFeatures, beyond
from exhume.linalg import streams
from exhume.linalg.moments import krylov_basis, krylov_width, leading

# New rows per round: a share of those there, within bounds.
_SHARE, _LEAST, _MOST = 0.25, 4, 20
# Powers of the residual's second moment.
_POWERS = 4
# Steps inside, and their first damping; damping of the step in the full space.
_STEPS, _PACE, _INNER_DAMPING, _DAMPING = 8, Pace(growth=0.0, least=0, patience=2, gain=0.999), 0.02, 0.002
# Rounds end at this loss, or when the loss does not fall to this share of what it was: with rows that came or went, and without.
_NEAR, _GAIN_CHANGED, _GAIN = 1e-8, 0.97, 0.3
# Below this loss in the full space rows count as fitted to noise in all dimensions: several weak ones may stand in for one missing.
_LATE = 1e-4
# Directions of Q that the others leave less of than this share are theirs.
_RANK = 1e-5


@dataclass(frozen=True)
class Round:
    """Where the rounds stand: the rows, how those that were there before moved in the last round, and whether to go on."""

    search: Search
    move: torch.Tensor | None = None
    going: bool = True


def pack(at: Round) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A round as tensors and plain values, for a checkpoint."""
    tensors, values = search.pack(at.search)
    return tensors if at.move is None else tensors | {"move": at.move}, {"search": values, "going": at.going}


def unpack(tensors: dict[str, torch.Tensor], values: dict[str, Any], device: torch.device | str) -> Round:
    """The round that `pack` took apart."""
    move = tensors["move"].to(device) if "move" in tensors else None
    return Round(search.unpack(tensors, values["search"], device), move, values["going"])


def new_rows(m: int, limit: int) -> int:
    """Rows that a round adds to m of them."""
    return max(0, min(limit - m, _MOST, max(_LEAST, int(_SHARE * m))))


def dimension(m: int) -> int:
    """Most dimensions of a round's subspace for m rows."""
    return 3 * m + (_POWERS + 1) * krylov_width(_MOST, 1 << 30)


def advance(
    problem: SpanProblem,
    state: State,
    at: Round,
    plan: Plan,
    *,
    limit: int,
    seed: int,
    show: Callable[[State], None],
) -> tuple[Round, State]:
    """One round from the rows of `state`; what it shows on the way is not kept."""
    assert problem.radius is not None
    fresh, moments = _outstanding(problem, state, new_rows(state.m, limit), seed=seed, key=at.search.round)
    Q = _subspace([state.X, state.gradient, *([] if at.move is None else [at.move]), moments])
    act = beyond(problem.features.activation, order=1, scale=problem.radius / problem.d**0.5)
    features = MatrixFeatures.projected(problem.features, Q, problem.p, act)
    inner = SpanProblem(features, problem.theta_without_nuisance().T, radius=problem.radius, nuisance=True)
    start = inner.on_sphere(torch.cat([state.X, fresh]) @ Q).contiguous()

    def note(_: Step, found: State) -> None:
        show(replace(found, X=found.X @ Q.T))

    moved = noisy.settle(inner, Search(start, damping=_INNER_DAMPING), plan, note, _PACE, most=_STEPS)
    costs = inner.removal_costs(moved)
    noise = noisy.noise_cost(inner, moved) * (problem.d / inner.d if state.loss < _LATE else 1.0)
    distinct = distinct_rows(moved.X, costs, apart=APART)
    keep = sorted(distinct[: max(1, int((costs[distinct] > noise).sum()))].tolist())
    X = problem.on_sphere(moved.X[keep] @ Q.T).contiguous()
    zeta = (moved if len(keep) == moved.m else inner.state(moved.X[keep])).zeta
    assert zeta is not None
    problem.correct(torch.cat([zeta[:1], Q.double() @ zeta[1:]]))
    old = [i for i in keep if i < state.m]
    before = state.X[old]
    del moved, features, start
    problem.passes += 1 + -(-inner.passes * inner.d // problem.d)
    del inner
    now = full_step(problem, problem.state(X), plan)
    changed = not len(old) == len(keep) == state.m
    kept = replace(at.search, X=now.X, round=at.search.round + 1, step=at.search.step + 1)
    going = _NEAR < now.loss < (_GAIN_CHANGED if changed else _GAIN) * state.loss
    return Round(kept, (now.X[: len(old)] - before).contiguous(), going), now


def full_step(problem: SpanProblem, state: State, plan: Plan) -> State:
    """The state after one Gauss-Newton step in the full space, where that is better."""
    trial = problem.state(problem.step(state, damping=_DAMPING, cg_steps=plan.cg_steps, cg_tolerance=plan.cg_tolerance))
    return trial if trial.loss < state.loss else state


def _outstanding(problem: SpanProblem, state: State, count: int, *, seed: int, key: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` rows at which the second moment of the residual stands out most, and the directions that it was seen in."""
    vector = strongest(problem, state.residual)
    width = krylov_width(count, problem.d)
    start = streams.random_directions(problem.d, width, seed=seed, purpose="krylov", block=key).to(problem.device)
    basis, image = krylov_basis(lambda W: problem.moment_product(vector, W), start, _POWERS)
    rows = leading(basis, image, count)[1].T.to(problem.dtype)
    return problem.on_sphere(rows).contiguous(), basis.T


def _subspace(parts: list[torch.Tensor]) -> torch.Tensor:
    """Orthonormal (d, q) basis of the rows of all parts, each part scaled alike."""
    columns = torch.cat([part.double() / part.double().norm() * len(part) ** 0.5 for part in parts]).T
    Q, R = torch.linalg.qr(columns)
    own = R.diagonal().abs()
    return Q[:, own > _RANK * own.max()].to(parts[0].dtype).contiguous()
