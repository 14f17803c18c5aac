"""Candidate rows on their way: what growth and pursuit share. A Gauss-Newton step, a new set of rows, rows tried without.

Every state is a frozen record; all randomness is keyed by (seed, purpose, attempt, round), so a run that is resumed from any
state ends in the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from exhume.attacks.proof.certificate import VAGUE, row_errors
from exhume.attacks.proof.doubtful_rows import doubtful_row
from exhume.attacks.proof.duplicate_rows import SEPARATE, crossings, distinct_rows, merged, repeated
from exhume.attacks.span.problem import Point, Span, State
from exhume.linalg.levenberg import FIRST_DAMPING, next_damping
from exhume.storage.records import not_stored

# Rows that may go for this much loss in all, or for this multiple of the loss, are not supported by the weights.
# Set on the sphere problems of benchmarks/bars.py.
UNSUPPORTED = 1e-9
UNSUPPORTED_TIMES = 10.0


class Stage(Enum):
    """Where a search for rows stands; the value is what a person reads."""

    GROW = "grow"
    PRUNE = "prune"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class InnerSolve:
    """How exactly the inner problem of a Gauss-Newton step is solved by conjugate gradients."""

    steps: int
    tolerance: float

    def longer(self, times: int) -> InnerSolve:
        """`times` as many steps, at a tenth of the tolerance."""
        return InnerSolve(times * self.steps, self.tolerance / 10)


@dataclass(frozen=True)
class TriedWithout:
    """The rows before some were taken out, until it is known that those were superfluous."""

    rows: Point
    loss: float


@dataclass(frozen=True)
class Candidates:
    """Candidate rows, and what has become of them so far."""

    at: Point
    stage: Stage = Stage.GROW
    damping: float = FIRST_DAMPING
    losses: tuple[float, ...] = ()  # since the rows last changed
    step: int = 0
    round: int = 0  # changes of the rows
    attempt: int = 0  # starts before this one
    without: TriedWithout | None = None
    most_to_drop: int | None = None  # rows that the next pruning may take; None means all that it finds
    doubted: bool = False  # the weakest row has been tried without
    state: State | None = not_stored()  # the problem at these rows

    @property
    def loss(self) -> float:
        """The loss at these rows, after a step."""
        return self.losses[-1] if self.state is None else self.state.loss

    @property
    def searching(self) -> bool:
        """Whether there is more to do."""
        return self.stage in (Stage.GROW, Stage.PRUNE)


Rows = TypeVar("Rows", bound=Candidates)


def state_at(problem: Span, now: Candidates) -> State:
    """The problem at the candidates, computed where it is not at hand."""
    return problem.state(now.at) if now.state is None else now.state


def moved(problem: Span, now: Rows, solve: InnerSolve, *, keep_losses: int | None = None) -> Rows:
    """One Gauss-Newton step, taken where it lowers the loss."""
    state = state_at(problem, now)
    trial = problem.state(problem.step(state, damping=now.damping, cg_steps=solve.steps, cg_tolerance=solve.tolerance))
    better = trial.loss < state.loss
    kept = trial if better else state
    losses = (*now.losses, kept.loss)
    return replace(
        now,
        at=kept.at,
        state=kept,
        damping=next_damping(now.damping, better=better),
        losses=losses if keep_losses is None else losses[-keep_losses:],
        step=now.step + 1,
    )


def restarted(problem: Span, now: Rows, at: Point, **changes: Any) -> Rows:
    """The search with another set of rows: state anew, damping and loss history cleared."""
    state = problem.state(at)
    fresh: dict[str, Any] = {
        "at": state.at,
        "state": state,
        "damping": FIRST_DAMPING,
        "losses": (state.loss,),
        "step": now.step + 1,
    }
    return replace(now, **(fresh | changes))


def pruned(problem: Span, now: Rows) -> Rows:
    """The search without rows that the weights do not support; done when none can go."""
    proved = replace(now, without=None, most_to_drop=None if now.without is not None else now.most_to_drop)
    budget = max(UNSUPPORTED, UNSUPPORTED_TIMES * state_at(problem, now).loss)
    lean = without_spare_rows(problem, proved, budget)
    return replace(proved, stage=Stage.DONE) if lean is None else lean


def without_spare_rows(problem: Span, now: Rows, budget: float) -> Rows | None:
    """The search without repeated rows, and without those that may go for `budget` of loss in all; None when all are needed.

    Repeats can fit exactly (`proof/duplicate_rows.py`). Removing one of the two costs loss at first, and the other then takes its
    place. Whether that happens is seen by going on; until then the rows from before stay at hand.
    """
    state = state_at(problem, now)
    costs, same = problem.removal_costs(state), repeated(state.X) | (crossings(problem, state) < SEPARATE)
    kept = set(distinct_rows(same, costs).tolist())
    kept &= set(state.projector.supported(state.alpha, budget * problem.energy))
    kept -= {i for i, error in enumerate(row_errors(problem, state)) if error > VAGUE}  # together they stand for fewer rows
    doubtful = doubtful_row(costs)
    if len(kept) == state.m and doubtful is not None and not now.doubted:
        kept.remove(doubtful)
    spare = sorted(set(range(state.m)) - kept, key=lambda i: float(costs[i]))[: now.most_to_drop]
    if not spare or len(spare) == state.m:
        return None
    keep = [i for i in range(state.m) if i not in spare]
    rest = state.with_rows(merged(problem, state, keep, same))
    before = TriedWithout(state.at, state.loss)
    return restarted(problem, now, rest, stage=Stage.PRUNE, without=before, most_to_drop=len(spare))


def taken_back(problem: Span, now: Rows) -> Rows:
    """Pruning took a row that was needed: go back, and take half as many next time."""
    assert now.without is not None
    assert now.most_to_drop is not None
    return restarted(problem, now, now.without.rows, stage=Stage.GROW, without=None, most_to_drop=now.most_to_drop // 2)
