"""Which sign each row has, read from the weights' linear component.

Where the odd part of phi is exactly c z (ReLU, leaky ReLU, GELU), theta = sum_i alpha_i even(V x_i) + c V sum_i alpha_i s_i x_i.
A fit with nuisance columns V finds the x_i up to sign and leaves zeta = c sum_i alpha_i (s_i - 1) x_i, so the flips
b_i = (1 - s_i) / 2 in {0, 1} solve sum_i (-2 c alpha_i x_i) b_i = zeta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import Point, State
from exhume.linalg.binary_equations import nearest_binary, solve_binary
from exhume.linalg.precision import precision

# Seconds that branch and bound may take for each of its tolerances.
_SECONDS = 20.0
# The signed fit may miss the nuisance fit's loss by this factor before the signs count as wrong.
_LOSS_RATIO = 1e4


@dataclass(frozen=True)
class Signs:
    """Rows with their signs, as far as these could be resolved."""

    resolved: bool
    X: torch.Tensor
    note: str = ""


def resolve_signs(problem: BlockwiseSpan, state: State, *, noisy: bool = False) -> Signs:
    """The sign of each row. Unless the weights are `noisy`, a loss above rounding leaves none to resolve."""
    floor = math.inf if noisy else precision(problem.dtype).certified
    act = problem.features.activation
    if act.parity != "linear-odd":
        return Signs(act.parity == "mixed", state.X)
    if state.zeta is None or state.loss > floor:
        return Signs(False, state.X)  # a search that failed has no signs to resolve
    columns = -2 * act.odd_slope * torch.einsum("mk,md->dkm", state.alpha, state.X.double())
    A = columns.reshape(problem.d * problem.k, state.m).cpu().numpy()
    zeta = state.zeta[1:].reshape(-1).cpu().numpy()
    flips = solve_binary(A, zeta, seconds=_SECONDS)
    if flips is None and noisy and A.shape[0] >= A.shape[1]:
        flips = nearest_binary(A, zeta)
    if flips is None:
        return Signs(False, state.X, "signs not resolved: the linear component leaves them open; each row is known up to its sign")
    X = state.X * torch.as_tensor(1 - 2 * flips, dtype=problem.dtype, device=problem.device)[:, None]
    signed = problem.without_nuisance().state(Point(X))
    if signed.loss > _LOSS_RATIO * max(state.loss, precision(problem.dtype).converged):
        note = f"signs not resolved: the best signs leave a loss of {signed.loss:.1e} against {state.loss:.1e} without them"
        return Signs(False, X, note)
    return Signs(True, X)
