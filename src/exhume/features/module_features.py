"""The penultimate features of any nn.Module that ends in a linear layer, with their derivatives by jvp and vjp."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn
from torch.func import jvp, vjp
from torch.nn.attention import SDPBackend, sdpa_kernel

from exhume.errors import ExhumeError


class ModuleFeatures:
    """phi(x): what enters the last linear layer of a module, for inputs given as flat rows (m, d), or z with x = Q z."""

    def __init__(
        self,
        module: nn.Module,
        input_shape: tuple[int, ...],
        *,
        dtype: torch.dtype,
        device: torch.device | str = "cpu",
        basis: torch.Tensor | None = None,  # Q, (d, r)
        alive: torch.Tensor | None = None,  # (p,) which features take part; None means all
    ) -> None:
        self.input_shape, size = input_shape, math.prod(input_shape)
        self.dtype, self.device = dtype, torch.device(device)
        self._basis = None if basis is None else basis.to(self.device, dtype)
        self.d = size if basis is None else basis.shape[1]
        torch.backends.mha.set_fastpath_enabled(False)  # the fused layer of inference has no derivative
        module = copy.deepcopy(module).to(self.device, dtype).requires_grad_(requires_grad=False)
        example = torch.linspace(-1, 1, 2 * size, dtype=dtype, device=self.device).reshape(2, *input_shape)
        self.last = find_last_linear(module, example)
        self._body = _without_last(module, self.last)
        self._alive = None if alive is None or bool(alive.all()) else alive.to(self.device)
        self.p = int(self._body(example).shape[1]) if self._alive is None else int(self._alive.sum())

    def value(self, X: torch.Tensor) -> torch.Tensor:
        """phi of every row, (m, p)."""
        rows = X if self._basis is None else X @ self._basis.T
        with sdpa_kernel(SDPBackend.MATH):  # fused attention has no forward derivative
            phi = self._body(rows.reshape(len(X), *self.input_shape))
        return phi if self._alive is None else phi[:, self._alive]

    def jvp(self, X: torch.Tensor, dX: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """phi and J_i dx_i of every row, (m, p) each."""
        moved = jvp(self.value, (X,), (dX,))
        return moved[0], moved[1]

    def vjp(self, X: torch.Tensor, dPhi: torch.Tensor) -> torch.Tensor:
        """J_i^T dphi_i of every row, (m, d)."""
        (rows,) = vjp(self.value, X)[1](dPhi)
        return rows


def find_last_linear(module: nn.Module, example: torch.Tensor) -> str:
    """The name of the linear layer whose output is the module's output, found by running it; refused where there is none."""
    for name, part in module.named_modules():
        random = isinstance(part, nn.Dropout | nn.modules.dropout._DropoutNd | nn.modules.batchnorm._BatchNorm)
        if random and part.training:
            raise ExhumeError(
                f"layer {name!r} is a {type(part).__name__} in training mode, so features depend on the batch. Call .eval() first."
            )
    seen: list[tuple[str, torch.Tensor]] = []
    handles = [
        part.register_forward_hook(lambda _, __, output, name=name: seen.append((name, output)))
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear)
    ]
    with torch.no_grad():
        first, second = module(example), module(example)
    for handle in handles:
        handle.remove()
    if not torch.equal(first, second):
        raise ExhumeError("the module gives two answers to one input. Remove its randomness (dropout, noise) or fix its seed.")
    if not seen or seen[-1][1] is not second:
        raise ExhumeError("the module does not end in a linear layer. Attack the part that does, or add the last layer to it.")
    return seen[-1][0]


def _without_last(module: nn.Module, name: str) -> nn.Module:
    if not name:
        return nn.Flatten()  # the module is the linear layer itself
    parent, _, leaf = name.rpartition(".")
    setattr(module.get_submodule(parent), leaf, nn.Identity())
    return module
