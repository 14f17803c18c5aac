"""The norm of each row: homogeneous features span directions only, labels of known size give the length."""

from __future__ import annotations

import torch

from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.problem import State
from exhume.knowledge import Facts
from exhume.linalg.blocks import slices
from exhume.release import Release

_ROWS = 65536  # features at a time in float64
# Lengths from labels may take a row out of the known range of inputs by this factor.
_BEYOND_RANGE = 1.1


def norms_of_span(problem: BlockwiseSpan, state: State, facts: Facts) -> tuple[torch.Tensor, str]:
    """Rows at their norms, and where those come from: known norm, from labels, fitted, or unknown."""
    if facts.input_norm is not None:
        return state.X, "known norm"
    if not problem.features.activation.homogeneous:
        return state.X, "fitted"
    if facts.label_size is None or facts.ridge is None or problem.k != 1:
        return state.X, "unknown"
    output = problem.total(_outputs(state.Phi, problem.theta[:, 0]))  # f(u_i) at the working radius
    penalty = facts.penalty if facts.penalty is not None else facts.ridge * (facts.n if facts.n is not None else state.m)
    size = _label_stretch(output, facts.label_size, facts.offset, penalty * (state.alpha[:, 0] * output.sign()))
    if not bool(torch.isfinite(size).all()):
        return state.X, "unknown"
    return state.X * size[:, None].to(state.X), "from labels"


def _outputs(Phi: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """Phi^T theta in float64, without a copy of all features in it."""
    output = torch.zeros(Phi.shape[1], dtype=torch.float64, device=Phi.device)
    for rows in slices(len(Phi), _ROWS):
        output += Phi[rows].double().T @ theta[rows].double()
    return output


def _label_stretch(output: torch.Tensor, size: float, offset: float, pull: torch.Tensor) -> torch.Tensor:
    """c with theta phi(c u) = y - offset, y = +-size. An intercept beyond the labels leaves both of them possible, one of them
    with an outlandish length: the nearer to the working radius is taken."""
    nearest = torch.full_like(output, torch.nan)
    for label in (size, -size):
        found = _stretch(output.abs(), (label - offset) * output.sign(), pull)
        usable = (found > 0) & ~(found.log().abs() >= nearest.log().abs())
        nearest = torch.where(usable, found, nearest)
    return nearest


def _stretch(output: torch.Tensor, label: torch.Tensor, pull: torch.Tensor) -> torch.Tensor:
    """c with x_i = c u_i. Training left c |f(u)| = |y| - n lambda a / c, so c^2 |f| - c |y| + n lambda a = 0.

    Without ridge c = |y| / |f|.
    """
    discriminant = label**2 - 4 * output * pull  # negative (then NaN) where no length fits
    return (label + discriminant.sqrt()) / (2 * output)


def _one_hot_stretch(output: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """c with c f(u) + b nearest to one of the unit vectors e_j; not positive where there is none."""
    targets = torch.eye(output.shape[1], dtype=output.dtype, device=output.device) - bias  # row j is e_j - b
    along, energy = output @ targets.T, output.square().sum(1, keepdim=True).clamp(min=1e-300)
    rest = targets.square().sum(1) - along**2 / energy
    best = torch.where(along > 0, rest, torch.inf).argmin(dim=1, keepdim=True)
    return (along / energy).gather(1, best)[:, 0]


def norms_of_network(release: Release, X: torch.Tensor) -> tuple[torch.Tensor, str]:
    """Rows at their norms: with homogeneous features f(c u) = c g(u) + b, so a target that is fitted gives the length."""
    facts = release.facts
    if facts.input_norm is not None:
        return X * (facts.input_norm / X.norm(dim=1, keepdim=True)), "known norm"
    spec = release.network
    if not spec.homogeneous:
        return X, "fitted"
    features = spec.features_at(release.trained, dtype=X.dtype, device=X.device)
    output = features.value(X) @ release.trained[spec.head_weight].to(X).T
    bias = release.trained.get(f"{spec.head}.bias", torch.zeros(release.k)).to(X)
    size = None
    if facts.one_hot:
        size = _one_hot_stretch(output, bias)
    elif facts.label_size is not None and not facts.ridge:
        size = _label_stretch(output[:, 0], facts.label_size, facts.offset + float(bias[0]), torch.zeros_like(output[:, 0]))
    most = None if facts.input_range is None else _most(X, *facts.input_range)
    if size is not None:
        size = torch.where((size > 0) & torch.isfinite(size), size, torch.inf if most is not None else 1.0)
        # A row that would leave the range by far is not a sample, and its output says nothing about its length.
        size = size if most is None else torch.where(size > _BEYOND_RANGE * most, most, size)
        return X * size[:, None], "from labels"
    return (X, "unknown") if most is None else (X * most[:, None], "from range")


def _most(X: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """The factor on each row at which it reaches black or white: pictures are taken to do so somewhere."""
    if not low < 0 < high:  # inputs of one sign: a row may cross zero by a little, or have the wrong sign
        return max(abs(low), abs(high)) / X.abs().max(dim=1).values
    return torch.minimum(high / X.max(dim=1).values.clamp(min=1e-300), low / X.min(dim=1).values.clamp(max=-1e-300))
