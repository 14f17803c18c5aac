"""Why rows rebuilt from the first layer's change must be training data: zeros that nothing was fitted to.

A column of Delta has r - 1 free numbers, so r - 1 of its zeros are fitted and every further one is an equation that holds
besides. What could pass for a column without being one is a combination of several. It vanishes where all of them do, and there
each of them vanishes alone; any zero beyond that is an accident, and s - 1 accidents can be had by choice among combinations of s
columns. Each of these is a zero without which the set would not fix the vector any more: its leverage is one. So a set of zeros
*none of which has leverage one* belongs to a column. The rows that follow from all columns must then be off, before and after
training, wherever their column is zero, and nothing was fitted to that either. Units that were on for a while break the converse:
they are off at both ends, yet not zero. They lie near the boundary, so that it is demanded of the deeper half only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from exhume.attacks.factors.column_space import ColumnSpace, SampleSpan
from exhume.attacks.factors.layer_change import LayerChange
from exhume.attacks.factors.zero_sets import MOST_ON, PIVOTAL, smallest_directions
from exhume.attacks.proof.certificate import VAGUE
from exhume.counting import MARGIN
from exhume.result import Certificate, Status

# Share of the deeper half of the off units that may be no zeros: units that were on for a while.
_SWITCHED = 0.5
# Zeros may be so many times larger than their noise, in squares.
_NOISE = 4.0


@dataclass(frozen=True)
class ColumnChecks:
    """What holds besides though nothing was fitted to it, for each column."""

    zeros: torch.Tensor  # (r,) how many
    leverage: torch.Tensor  # (r,) the largest of a zero
    on: torch.Tensor  # (r,) share of the zeros that are on for the row, before and after training
    switched: torch.Tensor  # (r,) share of the deeper half of the units off for the row that are no zeros
    loss: float  # energy of the entries that should be zero, as a share of that of all
    floor: float  # the same that noise alone leaves
    row_errors: tuple[float, ...]  # standard error of each row, relative to its norm


def check_columns(
    layer: LayerChange, space: SampleSpan, columns: ColumnSpace, duals: torch.Tensor, zeros: torch.Tensor, rows: torch.Tensor
) -> ColumnChecks:
    """All checks on r columns (by their duals, with their zeros (h, r)) and their rows (r, c) on the side of their masks."""
    r = len(rows)
    start, end = layer.start @ rows.T, layer.end @ rows.T  # (h, r)
    on_both, off_both = torch.minimum(start, end) > 0, torch.maximum(start, end) < 0
    entries = layer.change @ (space.basis @ duals)
    noise = space.noise[:, None] * duals.norm(dim=0)
    leverage, inside = torch.zeros(r), torch.zeros(r, r, dtype=rows.dtype)
    coordinates = rows @ space.basis
    for i in range(r):
        q = columns.column(duals[:, i : i + 1])[:, 0]
        vectors, values = smallest_directions(columns.whitened[zeros[:, i]])
        scaled = vectors[:-1] / values[:-1, None].clamp(min=1e-300)
        leverage[i] = (columns.whitened[zeros[:, i]] @ scaled.T).square().sum(1).max()
        # delta q = |q / S| sum_k g_k v_k / s_k with standard normal g, at the length of the dual.
        length = duals[:, i].norm() / (q / columns.S).norm()
        shifts = columns.dual(((q / columns.S).norm() * length) * scaled.T)
        inside[:, i] = (coordinates @ shifts).square().sum(1).cpu()  # variance of x_k . delta y_i
    depth = torch.where(off_both, -torch.maximum(start, end), torch.nan)
    deep = depth >= depth.nanmedian(dim=0).values
    energy = float(entries.square().sum())
    return ColumnChecks(
        zeros=zeros.sum(0).cpu(),
        leverage=leverage,
        on=((zeros & on_both).sum(0) / zeros.sum(0).clamp(min=1)).cpu(),
        switched=((deep & ~zeros).sum(0) / deep.sum(0).clamp(min=1)).cpu(),
        loss=float(entries[zeros].square().sum()) / energy,
        floor=float(noise[zeros].square().sum()) / energy,
        row_errors=_row_errors(layer, space, duals, rows, inside),
    )


def _row_errors(
    layer: LayerChange, space: SampleSpan, duals: torch.Tensor, rows: torch.Tensor, inside: torch.Tensor
) -> tuple[float, ...]:
    """Standard errors. From X Y = I: delta x_k = -sum_i (x_k . delta y_i) x_i.

    Outside the span noise enters through Delta's inverse.
    """
    r, c = rows.shape
    Delta = layer.change @ (space.basis @ duals)
    inverse = torch.linalg.pinv(Delta)  # (r, h)
    outside = (inverse.square() @ space.noise.square()) * max(0, c - r)
    if layer.biased:  # x = row / its last entry
        lengths = rows[:, -1]
        points = rows[:, :-1] / lengths[:, None]
        apart = torch.cdist(points, points).square()
        sizes = points.square().sum(1)
        outside = outside * (1 + sizes / max(1, c - r))
    else:
        lengths = rows.norm(dim=1)
        points = rows / lengths[:, None]
        apart = 1 - (points @ points.T).square()
        sizes = torch.ones_like(lengths)
    within = (inside.to(rows) * apart * lengths.square()).sum(1)
    variance = (within + outside) / lengths.square() / sizes.clamp(min=1e-300)
    return tuple(variance.sqrt().tolist())


def certificate_of(checks: ColumnChecks, *, weakest: float, spare: float | None) -> Certificate:
    """The checks as numbers that every certificate has."""
    r = len(checks.zeros)
    return Certificate(
        equations=int(checks.zeros.sum()),
        unknowns=max(1, r * (r - 1)),
        loss=checks.loss,
        floor=max(checks.floor, 1e-30),
        row_errors=checks.row_errors,
        weakest_row=weakest,
        strongest_spare=spare,
        separation=float(1 - checks.leverage.max()),
    )


def judge_columns(checks: ColumnChecks, proof: Certificate) -> tuple[Status, str]:
    """Status and one sentence of why."""
    r, fewest = len(checks.zeros), int(checks.zeros.min())
    doubt = _doubt(checks, proof)
    if doubt is not None:
        return Status.UNCERTIFIED, f"all {r} columns were found, but {doubt}"
    return Status.CERTIFIED, (
        f"each of the {r} columns has at least {fewest} exact zeros where {r - 1} could be fitted, "
        "no zero is an accident of a combination, and the rows are off where their columns are zero"
    )


def _doubt(checks: ColumnChecks, proof: Certificate) -> str | None:
    r = len(checks.zeros)
    if proof.margin < MARGIN:
        return f"{proof.equations} zeros are too few for {proof.unknowns} unknowns"
    if checks.loss > _NOISE * max(checks.floor, 1e-26):
        return f"their zeros are {math.sqrt(checks.loss / max(checks.floor, 1e-26)):.1f} times larger than the noise of the weights"
    if r > 1 and float(checks.leverage.max()) > 1 - PIVOTAL:
        return "a zero without which its column would not be fixed may be an accident of a combination"
    wrong = int((checks.on > MOST_ON).sum())
    if wrong:
        return f"{wrong} rows are on where their columns are zero: combinations of samples may stand for samples"
    wrong = int((checks.switched > _SWITCHED).sum())
    if wrong:
        return f"{wrong} rows are off where their columns are not zero: further samples may hide behind them"
    vague = sum(not error <= VAGUE for error in checks.row_errors)
    if vague:
        return f"{vague} of {r} rows have error bars above {VAGUE:.0%}"
    return None
