"""What streaming holds between two windows, and how its rows change: some leave, fresh ones come, a doubtful one is left out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import torch

from exhume.attacks.proof.doubtful_rows import doubtful_row
from exhume.attacks.span.high_dimensional import HighDimensionalSpan
from exhume.linalg.precision import cholesky, precision


class StreamingStage(Enum):
    """Where the search stands; the value is what a person reads."""

    STREAM = "stream"
    DOUBT = "doubt"  # tried without a row
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Rows:
    """Rows with their coefficients, and the linear part."""

    X: torch.Tensor  # (m, d)
    alpha: torch.Tensor  # (m, 1)
    linear: torch.Tensor  # (d + 1, 1)


@dataclass(frozen=True)
class StreamingState:
    """One step of the search."""

    rows: Rows
    probes: torch.Tensor  # (d, c) orthonormal: where the second moment of what the rows leave stands out, as far as that is known
    stage: StreamingStage = StreamingStage.STREAM
    place: int = 0  # where the next window begins
    losses: tuple[float, ...] = ()  # since the rows last changed
    loss: float = math.inf
    reference_loss: float = math.inf
    rounds_without_progress: int = 0  # rounds of new rows since the loss last fell below the reference by enough
    round: int = 0
    step: int = 0
    before: Rows | None = None  # those before a doubtful one was taken out


def with_rows(now: StreamingState, keep: torch.Tensor, gram: torch.Tensor) -> StreamingState:
    """The search with those rows only; their coefficients take over what those of the others did, as far as they can."""
    rows = now.rows
    gone = torch.ones(len(rows.X), dtype=torch.bool, device=keep.device)
    gone[keep] = False
    factor = cholesky(gram[keep][:, keep], jitter=precision(rows.X.dtype).jitter)
    shift = torch.cholesky_solve(gram[keep][:, gone] @ rows.alpha[gone], factor)
    return replace(now, rows=Rows(rows.X[keep].contiguous(), rows.alpha[keep] + shift, rows.linear), losses=())


def with_fresh(problem: HighDimensionalSpan, now: StreamingState, fresh: torch.Tensor) -> StreamingState:
    """The search with fresh rows too, whose coefficients follow on the next window."""
    rows = now.rows
    X = torch.cat([rows.X, problem.on_sphere(fresh.to(rows.X))])
    alpha = torch.cat([rows.alpha, rows.alpha.new_zeros(len(fresh), 1)])
    return replace(now, rows=Rows(X, alpha, rows.linear), losses=())


def without_doubtful(now: StreamingState, costs: torch.Tensor, gram: torch.Tensor) -> StreamingState:
    """The end, unless the weakest row may be superfluous: then the search tries to do without."""
    doubtful, count = doubtful_row(costs), len(now.rows.X)
    if count < 2 or doubtful is None:
        return replace(now, stage=StreamingStage.DONE)
    rest = torch.tensor([i for i in range(count) if i != doubtful], device=now.rows.X.device)
    doubting = replace(now, stage=StreamingStage.DOUBT, before=now.rows, reference_loss=now.loss)
    return with_rows(doubting, rest, gram)


def judged(now: StreamingState, *, right: bool, wrong: bool) -> StreamingState:
    """Without a doubtful row: the loss has come back, or it will not and the row was needed, or that is not yet seen."""
    if right:
        return replace(now, stage=StreamingStage.STREAM, before=None)
    if not wrong:
        return now
    assert now.before is not None
    return replace(now, rows=now.before, stage=StreamingStage.DONE, before=None, loss=now.reference_loss)
