"""The networks by name: graph and initialisation, as attackers know them and victims train them.

To add one: a file with its class beside this one, and an entry in NETWORKS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from exhume.architectures import residual_network, vision_transformer
from exhume.architectures.multilayer_perceptron import MultilayerPerceptron, start_like_torch
from exhume.architectures.residual_network import ResidualNetwork
from exhume.architectures.two_layer import TwoLayer
from exhume.architectures.vision_transformer import VisionTransformer
from exhume.errors import unknown_name

if TYPE_CHECKING:
    from exhume.architectures.spec import NetworkSpec


def _fan_in_spread(spec: NetworkSpec, name: str, shape: tuple[int, ...]) -> float:
    """Appendix D: first layer N(0, 1/d), every other weight N(0, 1/fan_in)."""
    return 1 / math.sqrt(spec.d if name == "first.weight" else math.prod(shape[1:]))


@dataclass(frozen=True)
class Architecture:
    """A registered network. Its first layer is called `first` and its last, which is linear and has no bias, `head`."""

    about: str
    build: Callable[[NetworkSpec], nn.Module]
    features_per_width: Callable[[tuple[int, ...]], int]  # features that one unit of width gives the last layer, by input shape
    width_step: int = 1  # widths are multiples of this
    homogeneous: bool = True  # phi(c x) = c phi(x) for c > 0: no biases before the head, no norms, ReLU only
    one_hidden_layer: bool = False  # features are act(first x), with `first` a matrix, unless several widths are given
    dense_first: bool = False  # `first` is a matrix on the whole input, and the activation follows it
    initial_spread: Callable[[NetworkSpec, str, tuple[int, ...]], float] = _fan_in_spread  # of a weight before training
    stops_at: float = math.inf  # mean loss in float64, where the loss itself would stop earlier
    draw: Callable[[nn.Module, str, torch.Generator], torch.Tensor] | None = None  # instead of normal weights of that spread


NETWORKS: dict[str, Architecture] = {
    "two-layer": Architecture(
        "theta2 relu(theta1 x) (Section 5.2)", TwoLayer, lambda shape: 1, one_hidden_layer=True, dense_first=True
    ),
    "mlp": Architecture(
        "dense layers of the given widths, started as torch starts them",
        MultilayerPerceptron,
        lambda shape: 1,
        one_hidden_layer=True,
        dense_first=True,
        # Lengths from labels are as exact as labels are fitted.
        stops_at=1e-16,
        draw=start_like_torch,
    ),
    "resnet": Architecture(
        "four residual blocks without batch norm (Appendix D.1)", ResidualNetwork, residual_network.features_per_channel
    ),
    "vit": Architecture(
        "vision transformer with a head on all tokens",
        VisionTransformer,
        vision_transformer.features_per_width,
        width_step=vision_transformer.HEADS,
        homogeneous=False,
        initial_spread=vision_transformer.initial_spread,
    ),
}


def architecture(name: str) -> Architecture:
    """The registered network of that name."""
    if name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    return NETWORKS[name]
