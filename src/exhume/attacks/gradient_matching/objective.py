"""One objective behind the published attacks (the second paper's view). Over candidate inputs x_i and duals lambda_i:

    || target_P  -  1/m sum_i lambda_i grad_P F(x_i; theta_bar) ||^2  +  a prior on x and lambda

with switches for the parameters P, the point theta_bar, the target, what F makes of the outputs, and whether the duals are
free or eliminated. Duals eliminated over the last layer leave the first paper's loss, which a `Span` computes without
forming a gradient; everything else goes through `GradientMatch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from exhume.attacks.span.problem import Point, Span
from exhume.attacks.span.trained_network import learned
from exhume.linalg.pass_counter import PassCounter
from exhume.release import Release

Unknowns = dict[str, torch.Tensor]  # "X" (m, d) and, where duals are free, "duals" (m, c)
# Relative cut-off of the pseudo-inverse that eliminates duals.
_RANK = 1e-12
# GEMMs over the first layer's weights that one value and gradient take: f, its gradient, and three on the way back.
_PASSES = 5


@dataclass(frozen=True)
class Switches:
    """Which member of the family; by default the first paper's loss."""

    parameters: str = "last"  # P: the "last" layer or "all"
    point: str = "trained"  # theta_bar: "trained", "initial" or "midpoint"
    target: str = "change"  # theta_T - theta_0, or theta_T itself ("weights")
    duals: str = "eliminated"  # or "free"
    outputs: str = "each"  # F: a dual for "each" output, y f ("signed"), or f_y - max f_j over the others ("margin")
    relu: str = "exact"  # "sigmoid": slope sigmoid(s z) in derivatives only; "softplus": log(1 + e^(s z)) / s altogether
    box: float = 0.0  # weight of the squared distance from the known range of inputs, summed over pixels
    box_mean: bool = False  # the mean over pixels instead
    dual_floor: float = 0.0  # weight of the squared distance below the least dual

    @property
    def spans(self) -> bool:
        """Whether this is the first paper's loss, which has a faster form."""
        return self.parameters == "last" and self.duals == "eliminated"


@dataclass(frozen=True)
class Level:
    """The constants that one evaluation needs besides the unknowns."""

    sharpness: float = 0.0  # of the smoothed ReLU
    least_dual: float = 0.0


class Objective(Protocol):
    """What a descent needs."""

    def evaluate(self, unknowns: Unknowns, level: Level) -> tuple[float, Unknowns]:
        """The mismatch as a share of ||target||^2, and the gradient of what is descended."""
        ...


class SpanLoss:
    """The first paper's ||P_perp theta||^2 / ||theta||^2: last layer, duals eliminated."""

    def __init__(self, problem: Span) -> None:
        self.problem = problem

    def evaluate(self, unknowns: Unknowns, level: Level) -> tuple[float, Unknowns]:
        """Loss and gradient at X."""
        state = self.problem.state(Point(unknowns["X"]))
        return state.loss, {"X": (-2 / self.problem.energy) * state.gradient}


class GradientMatch:
    """The objective in its general form, for a network's release, by differentiating the network twice."""

    def __init__(
        self,
        release: Release,
        switches: Switches,
        *,
        labels: torch.Tensor | None,
        device: torch.device,
        passes: PassCounter | None = None,
    ) -> None:
        spec, course, dtype = release.network, learned(release), release.weights.dtype
        names = [name for name in release.trained if switches.parameters == "all" or name == spec.head_weight]
        wanted = course.change if switches.target == "change" else lambda name: release.trained[name]
        self.switches, self.labels, self._shape = switches, labels, spec.input_shape
        self._theta = {name: value.to(device, dtype) for name, value in course.at(switches.point).items()}
        self._target = {name: wanted(name).to(device, dtype) for name in names}
        self._module = spec.module(self._theta)
        self._range = release.facts.input_range
        self.energy = sum(float((value.double() ** 2).sum()) for value in self._target.values())
        self.equations = sum(value.numel() for value in self._target.values())
        self.passes = PassCounter() if passes is None else passes

    def evaluate(self, unknowns: Unknowns, level: Level) -> tuple[float, Unknowns]:
        """Mismatch and gradient; eliminated duals are solved for first, and by the envelope theorem need no gradient."""
        leaves = {name: value.detach().requires_grad_() for name, value in unknowns.items()}
        duals = leaves["duals"] if "duals" in leaves else self.best_duals(leaves["X"].detach(), level)
        mismatch = self._mismatch(leaves["X"], duals, level)
        total = mismatch + self._prior(leaves["X"], duals, level)
        gradients = torch.autograd.grad(total, list(leaves.values()))
        self.passes.add(_PASSES)
        return float(mismatch.detach()) / self.energy, dict(zip(leaves, gradients, strict=True))

    def _mismatch(self, X: torch.Tensor, duals: torch.Tensor, level: Level) -> torch.Tensor:
        """||target - 1/m sum lambda grad F||^2, differentiable in X and the duals."""
        theta = self._leaves()
        weighed = (duals * self._scores(X, theta, level)).sum() / len(X)
        gradients = torch.autograd.grad(weighed, [theta[name] for name in self._target], create_graph=True)
        parts = [((want - got) ** 2).sum() for want, got in zip(self._target.values(), gradients, strict=True)]
        return torch.stack(parts).sum()

    def _leaves(self) -> dict[str, torch.Tensor]:
        return {name: value.detach().requires_grad_(name in self._target) for name, value in self._theta.items()}

    def _scores(self, X: torch.Tensor, theta: Mapping[str, torch.Tensor], level: Level) -> torch.Tensor:
        """F of every candidate, (m, c)."""
        with _SmoothReLU(self.switches.relu, level.sharpness):
            outputs = functional_call(self._module, dict(theta), (X.reshape(len(X), *self._shape),))
        if self.switches.outputs == "each":
            return outputs
        assert self.labels is not None
        if self.switches.outputs == "signed":
            return self.labels[:, None].to(outputs) * outputs
        own = torch.nn.functional.one_hot(self.labels, outputs.shape[1]).bool()
        rival = outputs.masked_fill(own, -torch.inf).max(dim=1).values
        return (outputs[own] - rival)[:, None]

    def best_duals(self, X: torch.Tensor, level: Level) -> torch.Tensor:
        """The duals with the smallest mismatch at X: K^+ v with K = G G^T and v = G target, G the gradients of every F."""
        theta = self._leaves()
        scores = self._scores(X, theta, level)
        rows = []
        for score in scores.flatten():
            gradients = torch.autograd.grad(score, [theta[name] for name in self._target], retain_graph=True)
            rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
        G = torch.stack(rows) / len(X)
        target = torch.cat([value.flatten() for value in self._target.values()])
        self.passes.add(2 * len(rows))
        values, vectors = torch.linalg.eigh((G @ G.T).double())
        keep = values > _RANK * values[-1]
        duals = vectors[:, keep] @ ((vectors[:, keep].T @ (G @ target).double()) / values[keep])
        return duals.to(X.dtype).reshape(scores.shape)

    def _prior(self, X: torch.Tensor, duals: torch.Tensor, level: Level) -> torch.Tensor:
        """Inputs in their known range, duals above the least one."""
        prior = X.new_zeros(())
        if self.switches.box and self._range is not None:
            beyond = torch.relu(X - self._range[1]) ** 2 + torch.relu(self._range[0] - X) ** 2
            prior = prior + self.switches.box * beyond.sum() / (X.shape[1] if self.switches.box_mean else 1)
        if self.switches.dual_floor:
            prior = prior + self.switches.dual_floor * (torch.relu(level.least_dual - duals) ** 2).sum()
        return prior


class _SmoothReLU(TorchFunctionMode):
    """Every ReLU under this mode gets a slope that depends smoothly on its input, so that gradients can be differentiated."""

    def __init__(self, kind: str, sharpness: float) -> None:
        super().__init__()
        self._kind, self._sharpness = kind, sharpness

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self._kind == "exact" or function not in (torch.relu, torch.nn.functional.relu, torch.Tensor.relu):
            return function(*args, **(kwargs or {}))
        smooth = torch.nn.functional.softplus(args[0], beta=self._sharpness)
        return smooth if self._kind == "softplus" else torch.relu(args[0]).detach() + (smooth - smooth.detach())


def labels_for(switches: Switches, rows: int, outputs: int, device: torch.device) -> torch.Tensor | None:
    """Fixed labels of the candidates, as many of each kind as of the others; None where duals carry them."""
    if switches.outputs == "each":
        return None
    if switches.outputs == "signed":
        return torch.where(torch.arange(rows) % 2 == 0, 1.0, -1.0).to(device)
    return (torch.arange(rows) % outputs).to(device)
