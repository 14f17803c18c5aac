"""Grow and prune: damped Gauss-Newton on few rows, more rows when it stalls, superfluous rows out when it has converged.

Growing from below is what makes the search robust: each new row starts where the residual's second moment points, so the
rows found so far are refined rather than searched anew, and n need not be known. A `Search` is one frozen step of that
course; all randomness is keyed by (seed, purpose, attempt, round), so a run resumed from any step ends in the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from exhume.attacks.cells import SEPARATE, crossings, distinct_rows, merged, repeated
from exhume.attacks.certificate import VAGUE, row_errors
from exhume.attacks.span_base import Moments, Span, State
from exhume.linalg import streams
from exhume.linalg.moments import krylov_width, top_eigenpairs
from exhume.linalg.precision import precision

# Equations per unknown below which further rows could fit anything.
_SPARE_EQUATIONS = 1.05
# Eigenvalues that leave the bulk by this factor count as samples.
_OUTLIER = 1.1
# Rows that may go for this much loss in all, or for this multiple of the loss, are not supported by the weights.
UNSUPPORTED, UNSUPPORTED_TIMES = 1e-9, 10.0
# A row that explains less than this multiple of what a row fitted to noise would is noise.
_NOISE = 4.0
# A row that may go for this much is doubtful: the search tries to do without it.
_DOUBTFUL = 1e-4
# Having done without, a loss above this multiple of the one before means that they were needed.
_WORSE = 3.0
_FIRST_DAMPING, _MAX_DAMPING, _MIN_DAMPING = 0.1, 1e6, 1e-9
# Below this loss the basin is found: inner solves get longer, and a gain of less than tenfold per `patience` steps is slow:
# superfluous rows then make the problem degenerate.
_NEAR, _NEAR_CG, _SLOW = 1e-6, 6, 0.1


@dataclass(frozen=True)
class Pace:
    """How fast rows are added."""

    growth: float  # share of rows added when stalled
    least: int  # rows added at least
    patience: int  # steps over which a gain is measured
    gain: float  # stalled when the loss stays above this share of what it was `patience` steps ago


_FIRST_PACE = Pace(growth=0.25, least=2, patience=4, gain=0.85)


@dataclass(frozen=True)
class Plan:
    """The settings of a search."""

    cg_steps: int
    cg_tolerance: float
    starts: int
    full_rounds: int  # rounds at the largest admissible number of rows before a new start
    turnover: float  # share of weakest rows replaced when stalled; 0: those that explain no more than noise

    def careful(self) -> Plan:
        """The same with longer inner solves."""
        return replace(self, cg_steps=2 * self.cg_steps, cg_tolerance=self.cg_tolerance / 10)

    def pace(self, attempt: int) -> Pace:
        """The first attempt hurries, which is enough well above the threshold; later ones take their time."""
        return _FIRST_PACE if attempt == 0 else Pace(0.2 / attempt, 1, 5, 0.9)


# Rows that remain after a pruning converge at once if it was right.
PRUNED_PACE = Pace(growth=0.0, least=0, patience=4, gain=0.3)


@dataclass(frozen=True)
class Search:
    """One step of a search."""

    X: torch.Tensor
    stage: str = "grow"  # grow, prune, done, failed
    damping: float = _FIRST_DAMPING
    losses: tuple[float, ...] = ()  # since the rows last changed
    attempt: int = 0
    round: int = 0
    full: int = 0  # rounds spent at the row limit
    step: int = 0
    fallback: torch.Tensor | None = None  # rows before the last pruning, until it has proved right
    before: float = 0.0  # the loss before that pruning
    drop: int | None = None  # most rows that the next pruning may take; None means all candidates
    doubted: bool = False  # the weakest row has been tried without
    best: torch.Tensor | None = None  # pursuit: the rows with the smallest loss for their number
    level: float = 0.0  # pursuit: that loss over a power of the equations that their number leaves free


_TENSORS = ("X", "fallback", "best")


def pack(search: Search) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """A step as tensors and plain values, for a checkpoint."""
    tensors = {name: value for name, value in vars(search).items() if isinstance(value, torch.Tensor)}
    return tensors, {name: value for name, value in vars(search).items() if name not in _TENSORS}


def unpack(tensors: dict[str, torch.Tensor], values: dict[str, Any], device: torch.device | str) -> Search:
    """The step that `pack` took apart."""
    fields: dict[str, Any] = {name: tensors[name].to(device) for name in _TENSORS if name in tensors}
    fields |= {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return Search(**fields)


def row_limit(problem: Span, known_n: int | None) -> int:
    """Most rows that the equations can pin down: p k > (rows (d - 1 + k) + nuisance) with a margin."""
    if known_n is not None:
        return known_n
    equations = problem.p * problem.k - (problem.d + 1) * problem.k
    return max(1, int(equations / (_SPARE_EQUATIONS * (problem.d - 1 + problem.k))))


def fresh_rows(problem: Span, vector: torch.Tensor, count: int, *, seed: int, key: int, mix: bool) -> torch.Tensor:
    """New rows: top eigenvectors of the moment matrix of `vector` (or random mixtures of them), random where it is blind."""
    if problem.moments is None:
        rows = streams.random_directions(count, problem.d, seed=seed, purpose="rows", block=key)
    else:
        _, vectors = _moment_pairs(problem.moments, problem, vector, min(count, problem.d), seed=seed, key=key)
        rows = vectors.T
        if mix or count > rows.shape[0]:
            mixing = streams.random_directions(count, rows.shape[0], seed=seed, purpose="mixing", block=key)
            mixed = mixing.to(rows.device) @ rows
            rows = mixed if mix else torch.cat([rows, mixed[: count - rows.shape[0]]])
    rows = rows.to(problem.device, problem.dtype)
    scale = problem.radius if problem.radius is not None else problem.d**0.5
    # Contiguous, as a checkpoint restores them: another layout would round differently.
    return (rows * (scale / rows.norm(dim=1, keepdim=True))).contiguous()


def _moment_pairs(
    moments: Moments, problem: Span, vector: torch.Tensor, count: int, *, seed: int, key: int
) -> tuple[torch.Tensor, torch.Tensor]:
    width = krylov_width(count, problem.d)
    start = streams.random_directions(problem.d, width, seed=seed, purpose="krylov", block=key).to(problem.device)
    return top_eigenpairs(lambda W: moments(vector, W), start, count)


def visible_rows(problem: Span, seed: int, most: int = 24) -> int:
    """Samples (at most `most`) whose eigenvalue leaves the bulk; its edge is that of the same weights with shuffled signs."""
    if problem.moments is None:
        return 0
    vector = strongest(problem, problem.theta)
    count = min(most, max(1, problem.d // 2))
    values, _ = _moment_pairs(problem.moments, problem, vector, count, seed=seed, key=0)
    flips = problem.random_signs(streams.generator(seed, "flips"))
    edge, _ = _moment_pairs(problem.moments, problem, vector * flips.to(vector), 1, seed=seed, key=0)
    return int((values.abs() > _OUTLIER * edge.abs()[0]).sum())


def strongest(problem: Span, columns: torch.Tensor) -> torch.Tensor:
    """The combination of outputs with most energy, (p,)."""
    if columns.shape[1] == 1:
        return columns[:, 0]
    vectors = torch.linalg.eigh(problem.total((columns.T @ columns).double()))[1]
    return columns @ vectors[:, -1].to(columns)


def begin(problem: Span, *, rows: int, seed: int, attempt: int = 0, step: int = 0) -> Search:
    """A first set of rows; later attempts mix the eigenvectors at random."""
    vector = strongest(problem, problem.theta)
    X = fresh_rows(problem, vector, rows, seed=seed, key=1000 * attempt, mix=attempt > 0)
    return Search(X, attempt=attempt, step=step)


def advance(
    problem: Span, state: State, search: Search, plan: Plan, *, limit: int, first_rows: int, seed: int
) -> tuple[Search, State]:
    """One outer step: a Gauss-Newton step, or new rows, or rows out, or the end."""
    floors = precision(problem.dtype)
    pace = plan.pace(search.attempt)
    no_gain = stalled(search.losses, pace)
    needed = search.fallback is not None and state.loss > max(floors.converged, _WORSE * search.before)
    judged = search.fallback is not None and stalled(search.losses, PRUNED_PACE)
    if state.loss <= floors.converged or ((no_gain or judged) and state.loss <= floors.certified and not needed):
        return prune(problem, state, search)
    near = state.loss < _NEAR
    if judged:
        return undo_pruning(problem, search)
    slow = stalled(search.losses, replace(pace, gain=_SLOW))
    if near and slow and search.fallback is None and search.drop is None:
        lean = without_spare_rows(problem, state, search, UNSUPPORTED)
        if lean is not None:
            return lean
    if no_gain and search.fallback is None:
        return _reshape(problem, state, search, plan, limit=limit, first_rows=first_rows, seed=seed)
    cg_steps, cg_tolerance = (_NEAR_CG * plan.cg_steps, plan.cg_tolerance / 10) if near else (plan.cg_steps, plan.cg_tolerance)
    X = problem.step(state, damping=search.damping, cg_steps=cg_steps, cg_tolerance=cg_tolerance)
    trial = problem.state(X)
    better = trial.loss < state.loss
    damping = max(search.damping / 3, _MIN_DAMPING) if better else min(search.damping * 6, _MAX_DAMPING)
    kept = trial if better else state
    losses = (*search.losses, kept.loss)[-max(pace.patience, PRUNED_PACE.patience) - 1 :]
    return replace(search, X=kept.X, damping=damping, losses=losses, step=search.step + 1), kept


def noise_gain(problem: Span, state: State) -> float:
    """The loss that a row fitted to noise takes away: loss (d + k) / (p k)."""
    return state.loss * (problem.d + problem.k) / (problem.p * problem.k)


def stalled(losses: tuple[float, ...], pace: Pace) -> bool:
    """Whether the last `patience` steps gained too little."""
    return len(losses) > pace.patience and losses[-1] > losses[-1 - pace.patience] * pace.gain


def restart(problem: Span, search: Search, X: torch.Tensor, **changes: object) -> tuple[Search, State]:
    """The search with another set of rows: state anew, damping and loss history cleared."""
    state = problem.state(X)
    fresh = replace(search, X=X, damping=_FIRST_DAMPING, losses=(state.loss,), step=search.step + 1, **changes)  # type: ignore[arg-type]
    return fresh, state


def prune(problem: Span, state: State, search: Search) -> tuple[Search, State]:
    """Drop rows that the weights do not support; done when none can go."""
    proved = replace(search, fallback=None, drop=None if search.fallback is not None else search.drop)
    budget = max(UNSUPPORTED, UNSUPPORTED_TIMES * state.loss)
    return without_spare_rows(problem, state, proved, budget) or (replace(proved, stage="done"), state)


def without_spare_rows(problem: Span, state: State, search: Search, budget: float) -> tuple[Search, State] | None:
    """The search without repeated rows, and without those that may go for `budget` of loss in all; None when all are needed.

    Repeats can fit exactly (`cells.py`). Removing one of the two costs loss at first, and the other then takes its place.
    Whether that happens is seen by going on; until then the rows from before stay at hand.
    """
    costs, same = problem.removal_costs(state), repeated(state.X) | (crossings(problem, state) < SEPARATE)
    kept = set(distinct_rows(same, costs).tolist())
    kept &= set(state.projector.supported(state.alpha, budget * problem.energy))
    kept -= {i for i, error in enumerate(row_errors(problem, state)) if error > VAGUE}  # together they stand for fewer rows
    weakest = int(costs.argmin())
    if len(kept) == state.m and costs[weakest] < _DOUBTFUL and not search.doubted:
        kept.remove(weakest)
    spare = sorted(set(range(state.m)) - kept, key=lambda i: float(costs[i]))[: search.drop]
    if not spare or len(spare) == state.m:
        return None
    keep = [i for i in range(state.m) if i not in spare]
    X = merged(problem, state, keep, same)
    return restart(problem, search, X, stage="prune", fallback=state.X, before=state.loss, drop=len(spare))


def undo_pruning(problem: Span, search: Search) -> tuple[Search, State]:
    """Pruning took a row that was needed: go back, and take half as many next time."""
    assert search.fallback is not None
    assert search.drop is not None
    return restart(problem, search, search.fallback, stage="grow", fallback=None, drop=search.drop // 2)


def _reshape(
    problem: Span, state: State, search: Search, plan: Plan, *, limit: int, first_rows: int, seed: int
) -> tuple[Search, State]:
    """Merge repeated rows, replace the weakest, and grow towards the limit along the residual's moments."""
    at_limit = state.m >= limit
    if at_limit and search.full >= plan.full_rounds:
        if search.attempt + 1 >= plan.starts:
            return replace(search, stage="failed"), state
        fresh = begin(problem, rows=first_rows, seed=seed, attempt=search.attempt + 1, step=search.step)
        return restart(problem, fresh, fresh.X)
    pace = plan.pace(search.attempt)
    target = min(limit, state.m + max(pace.least, int(pace.growth * state.m)))
    costs = problem.removal_costs(state)
    weak = int(plan.turnover * state.m) or int((costs < _NOISE * noise_gain(problem, state)).sum())
    keep = distinct_rows(repeated(state.X), costs)[: max(1, state.m - weak)]
    if at_limit and len(keep) == state.m:
        keep = keep[:-1]
    key = 1000 * search.attempt + search.round + 1
    added = fresh_rows(problem, strongest(problem, state.residual), target - len(keep), seed=seed, key=key, mix=False)
    X = torch.cat([state.X[keep], added])
    again = replace(search, stage="grow", drop=None, doubted=False, round=search.round + 1, full=search.full + int(at_limit))
    return restart(problem, again, X)
