"""The networks by name: graph and initialisation, as attackers know them and victims train them. One class each."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from exhume.errors import ExhumeError, unknown_name
from exhume.features.activations import activation
from exhume.linalg import streams
from exhume.release import NetworkSpec

_RESNET_SIDE = 7  # after the stem, Appendix D.1
_VIT_DEPTH, _VIT_HEADS = 2, 4
_VIT_POSITION = 0.02  # spread of the position embeddings at the start, as in ViT-B/16


@dataclass(frozen=True)
class Architecture:
    """A registered network: how to build it, and how many features one unit of width gives the last layer."""

    about: str
    build: Callable[[NetworkSpec], nn.Module]
    features_per_width: Callable[[tuple[int, ...]], int]
    width_step: int = 1  # widths are multiples of this
    homogeneous: bool = True  # phi(c x) = c phi(x) for c > 0: no biases before the head, no norms, ReLU only
    one_hidden_layer: bool = False  # features are relu(first x), with `first` a matrix


class TwoLayer(nn.Module):
    """f(x) = theta2 act(theta1 x) (Section 5.2), ReLU unless the specification says otherwise."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.first = nn.Linear(spec.input_dim, spec.width, bias=spec.biased)
        self.head = nn.Linear(spec.width, spec.outputs, bias=spec.head_biased)
        self.act = activation(spec.activation).value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs (n, ...) -> outputs (n, k)."""
        return self.head(self.act(self.first(x.flatten(1))))


class _Residual(nn.Module):
    """B(u) = relu(u + C[relu(C[u])]) (Eq. 165)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.outer = nn.Conv2d(channels, channels, 3, padding=1, bias=False)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return torch.relu(u + self.outer(torch.relu(self.inner(u))))


class ResNet(nn.Module):
    """Appendix D.1: one large convolution down to 7x7, four residual blocks without batch norm, a linear head (Eq. 166)."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        channels, side = _picture("resnet", spec.input_shape)
        # 28x28 for 32x32 pictures; other sizes get the kernel that also ends at 7x7.
        self.first = nn.Conv2d(channels, spec.width, side - _RESNET_SIDE + 3, padding=1, bias=False)
        self.blocks = nn.Sequential(*(_Residual(spec.width) for _ in range(4)))
        self.head = nn.Linear(spec.width * _RESNET_SIDE**2, spec.outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures (n, channels, side, side) -> outputs (n, k)."""
        return self.head(self.blocks(self.first(x)).flatten(1))


class _Attention(nn.Module):
    """Multi-head self-attention; written out, since the fused kernel has no forward-mode derivative."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        n, tokens, width = u.shape
        q, k, v = self.mix(u).reshape(n, tokens, 3, _VIT_HEADS, -1).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width / _VIT_HEADS), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, tokens, width))


class _Layer(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        u = u + self.attention(self.norm1(u))
        return u + self.mlp(self.norm2(u))


class VisionTransformer(nn.Module):
    """Patches on a grid, two pre-norm layers, and a head on all tokens, so that p_L = tokens k width can pass d n."""

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        channels, side = _picture("vit", spec.input_shape)
        patch = side // _grid(side)
        self.first = nn.Conv2d(channels, spec.width, patch, stride=patch)
        self.position = nn.Parameter(torch.zeros(1, _grid(side) ** 2, spec.width))
        self.layers = nn.Sequential(*(_Layer(spec.width) for _ in range(_VIT_DEPTH)))
        self.norm = nn.LayerNorm(spec.width)
        self.head = nn.Linear(spec.width * _grid(side) ** 2, spec.outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pictures (n, channels, side, side) -> outputs (n, k)."""
        tokens = self.first(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.norm(self.layers(tokens)).flatten(1))


def _grid(side: int) -> int:
    """Patches along a side: 8 of 4x4 pixels for CIFAR-10, 4 for small pictures."""
    return 8 if side >= 32 else 4


def _picture(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Channels and side of square pictures."""
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] % 8:
        raise ExhumeError(
            f"a {name} takes square pictures whose side is a multiple of 8, got inputs of shape {shape}. Use --victim two-layer."
        )
    return shape[0], shape[1]


NETWORKS: dict[str, Architecture] = {
    "two-layer": Architecture("theta2 relu(theta1 x) (Section 5.2)", TwoLayer, lambda _: 1, one_hidden_layer=True),
    "resnet": Architecture("four residual blocks without batch norm (Appendix D.1)", ResNet, lambda _: _RESNET_SIDE**2),
    "vit": Architecture(
        "vision transformer with a head on all tokens",
        VisionTransformer,
        lambda shape: _grid(shape[-1]) ** 2,
        width_step=_VIT_HEADS,
        homogeneous=False,
    ),
}


# Modules that a user brought, by the name they were brought under; their graph is known to this process alone.
_OWN: dict[str, Architecture] = {}


def bring_module(name: str, module: nn.Module, *, homogeneous: bool) -> None:
    """Register a user's own module as an architecture: from here on a NetworkSpec can name it."""
    _OWN[name] = Architecture("brought by the user", lambda _: copy.deepcopy(module), lambda _: 1, homogeneous=homogeneous)


def architecture(name: str) -> Architecture:
    """The architecture of that name, built in or brought."""
    if name not in NETWORKS and name not in _OWN:
        raise unknown_name("network", name, NETWORKS)
    return NETWORKS.get(name) or _OWN[name]


def homogeneous(spec: NetworkSpec) -> bool:
    """Whether phi(c x) = c phi(x) for c > 0: then the features hold directions only."""
    return architecture(spec.architecture).homogeneous and not spec.biased and activation(spec.activation).homogeneous


def describe_network(name: str, shape: tuple[int, ...], *, outputs: int, last_layer: int) -> NetworkSpec:
    """The network of that name whose last layer has about `last_layer` parameters in all."""
    if name not in NETWORKS:
        raise unknown_name("network", name, NETWORKS)
    kind = NETWORKS[name]
    per = kind.features_per_width(shape)
    width = max(1, round(last_layer / (outputs * per * kind.width_step))) * kind.width_step
    return NetworkSpec(name, tuple(shape), outputs, width, width * per)


def build_meta(spec: NetworkSpec) -> nn.Module:
    """The network's graph without values."""
    with torch.device("meta"):
        return architecture(spec.architecture).build(spec)


def build_network(spec: NetworkSpec, parameters: Mapping[str, torch.Tensor]) -> nn.Module:
    """The network with these parameters, ready to evaluate."""
    module = build_meta(spec)
    wanted = {name for name, value in module.state_dict().items() if value.is_floating_point()}
    if wanted != set(parameters):
        odd = sorted(wanted ^ set(parameters))[0]
        raise ExhumeError(f"the parameters do not belong to this {spec.architecture}: {odd!r} is missing or too much.")
    try:
        module.load_state_dict(dict(parameters), strict=False, assign=True)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise ExhumeError(f"the parameters do not belong to this {spec.architecture}: {reason}") from None
    return module.eval()


def initial_parameters(spec: NetworkSpec, *, seed: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Appendix D: first layer N(0, 1/d), every other weight N(0, 1/fan_in); norms start at one, biases at zero."""
    shapes = {name: tuple(p.shape) for name, p in build_meta(spec).named_parameters()}
    values = {}
    for index, (name, shape) in enumerate(shapes.items()):
        if len(shape) < 2:
            values[name] = torch.full(shape, float("norm" in name and name.endswith("weight")), dtype=dtype)
            continue
        fan_in = spec.input_dim if name == "first.weight" and spec.architecture != "vit" else math.prod(shape[1:])
        spread = _VIT_POSITION if name == "position" else 1 / math.sqrt(fan_in)
        draw = torch.randn(shape, generator=streams.generator(seed, "network", index), dtype=torch.float64)
        values[name] = (draw * spread).to(dtype)
    return values
