"""The last steps of a fit, on the problem without nuisance columns."""

from __future__ import annotations

import torch

from exhume.attacks.search.candidates import InnerSolve
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point, State
from exhume.linalg.precision import precision

# A step that leaves more than this share of the loss is the last one.
_WORTH_IT = 0.9


def polished(exact: BlockwiseSpan, X: torch.Tensor, solve: InnerSolve, *, steps: int) -> State:
    """The rows after a few steps on the exact problem, where the linear part counts as evidence too."""
    state = exact.state(Point(X))
    for _ in range(steps):
        if state.loss <= precision(exact.dtype).polished:
            break
        trial = exact.state(exact.step(state, damping=1e-9, cg_steps=3 * solve.steps, cg_tolerance=1e-2))
        if trial.loss > _WORTH_IT * state.loss:
            break
        state = trial
    return state
