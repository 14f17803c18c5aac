"""Layers of a module that an attack can use, found by running it: the hidden one of two layers, and the one that sees inputs."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn

from exhume.features import ACTIVATIONS, Activation


@dataclass(frozen=True)
class Layer:
    """A hidden layer act(W x + b) that feeds the last one."""

    name: str
    activation: Activation
    biased: bool


def hidden_layer(module: nn.Module, last: str, example: torch.Tensor) -> Layer | None:
    """The layer act(W x + b) that feeds the last one, if that is all there is; found by running the module."""
    seen: list[tuple[str, torch.Tensor, torch.Tensor]] = []
    handles = [
        part.register_forward_hook(lambda _, inputs, output, name=name: seen.append((name, inputs[0], output)))
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear)
    ]
    with torch.no_grad():
        module(example)
    for handle in handles:
        handle.remove()
    if len(seen) != 2 or seen[1][0] != last or not torch.equal(seen[0][1].flatten(1), example.flatten(1)):
        return None
    name, _, before = seen[0]
    layer = module.get_submodule(name)
    for act in ACTIVATIONS.values():
        if (
            not act.phase
            and before.shape == seen[1][1].shape
            and torch.allclose(act.value(before), seen[1][1], rtol=1e-9, atol=1e-12)
        ):
            return Layer(name, act, layer.bias is not None)
    return None


def first_layer(module: nn.Module, last: str, example: torch.Tensor) -> str | None:
    """The layer that sees the inputs themselves, if it is a matrix or a convolution whose change shows their subspace."""
    seen: list[tuple[str, torch.Tensor]] = []
    double = copy.deepcopy(module).double()
    handles = [
        part.register_forward_hook(lambda _, inputs, __, name=name: seen.append((name, inputs[0])))
        for name, part in double.named_modules()
        if isinstance(part, nn.Linear | nn.Conv2d) and name != last
    ]
    with torch.no_grad():
        double(example)
    for handle in handles:
        handle.remove()
    for name, given in seen:
        whole = given.ndim == (4 if isinstance(double.get_submodule(name), nn.Conv2d) else 2)
        if whole and given.numel() == example.numel() and torch.equal(given.flatten(1), example.flatten(1)):
            return name if _plain(double.get_submodule(name)) else None
    return None


def off_below_zero(module: nn.Module, name: str, example: torch.Tensor) -> bool:
    """Whether nothing behind a dense layer depends on how far below zero its units are, and something on how far above: a ReLU."""
    double = copy.deepcopy(module).double()
    layer = double.get_submodule(name)
    if not isinstance(layer, nn.Linear):
        return False

    def moved(above: float, below: float) -> torch.Tensor:
        handle = layer.register_forward_hook(lambda _, __, out: torch.where(out > 0, above * out, below * out))
        with torch.no_grad():
            answer = double(example)
        handle.remove()
        return answer

    plain, low, high = moved(1.0, 1.0), moved(1.0, 3.0), moved(3.0, 1.0)
    return torch.equal(plain, low) and not torch.equal(plain, high)


def _plain(module: nn.Module) -> bool:
    """Whether the layer sees whole inputs or patches of them, as the subspace attack has to assume."""
    return not isinstance(module, nn.Conv2d) or (
        module.groups == 1 and set(module.dilation) == {1} and not isinstance(module.padding, str)
    )
