"""Networks as attackers know them: the graph, registered or a user's own, and where its first and last layers are."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn

from exhume.architectures.registry import architecture
from exhume.errors import ExhumeError
from exhume.features import FeatureMemory, MatrixFeatures, ModelSpec, ModuleFeatures, activation
from exhume.features.spec import FeatureBlocks, Parameters
from exhume.linalg import streams


@dataclass(frozen=True)
class NetworkSpec(ModelSpec):
    """The public description of a registered network: its computational graph, by name."""

    kind: ClassVar[str] = "network"
    architecture: str
    input_shape: tuple[int, ...]
    outputs: int  # k
    width: int  # hidden units, channels or embedding dimension
    count: int  # features that enter the last layer
    activation: str = "relu"
    biased: bool = False  # two-layer, mlp: layers before the last have a bias
    head_biased: bool = False  # two-layer, mlp: the last layer has one
    head: str = "head"  # names of the last layer and of the first, None where that is no matrix or convolution
    first: str | None = "first"
    widths: tuple[int, ...] = ()  # mlp: units of each hidden layer

    @property
    def d(self) -> int:
        """Input dimension."""
        return math.prod(self.input_shape)

    @property
    def p(self) -> int:
        """Features that enter the last layer."""
        return self.count

    @property
    def homogeneous(self) -> bool:
        """Whether phi(c x) = c phi(x) for c > 0."""
        return architecture(self.architecture).homogeneous and not self.biased and activation(self.activation).homogeneous

    @property
    def one_hidden_layer(self) -> bool:
        """Whether features are act(first x)."""
        return architecture(self.architecture).one_hidden_layer and len(self.widths) < 2

    @property
    def dense_first(self) -> bool:
        """Whether the first layer is a matrix on the whole input, with the activation behind it."""
        return architecture(self.architecture).dense_first

    @property
    def relu_behind_first(self) -> bool:
        """Whether the first layer is a matrix on the whole input with a ReLU behind it: its units are then exactly off for some."""
        return self.dense_first and self.activation == "relu"

    @property
    def first_weight(self) -> str | None:
        """Name of the first layer's weight."""
        return None if self.first is None else f"{self.first}.weight"

    @property
    def head_weight(self) -> str:
        """Name of the last layer's weight."""
        return f"{self.head}.weight"

    def graph(self) -> nn.Module:
        """The network without values."""
        with torch.device("meta"):
            return architecture(self.architecture).build(self)

    def module(self, parameters: Parameters) -> nn.Module:
        """The network with these parameters, ready to evaluate."""
        module = self.graph()
        wanted = {name for name, value in module.state_dict().items() if value.is_floating_point()}
        if wanted != set(parameters):
            odd = sorted(wanted ^ set(parameters))[0]
            raise ExhumeError(f"the parameters do not belong to this {self.architecture}: {odd!r} is missing or too much.")
        try:
            module.load_state_dict(dict(parameters), strict=False, assign=True)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise ExhumeError(f"the parameters do not belong to this {self.architecture}: {reason}") from None
        return module.eval()

    def features_at(self, parameters: Parameters, *, dtype: torch.dtype, device: torch.device | str = "cpu") -> ModuleFeatures:
        """phi at any weights, with derivatives."""
        return ModuleFeatures(self.module(parameters), self.input_shape, dtype=dtype, device=device)

    def header(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self) | {"kind": self.kind}

    def last_layer(self, weights: torch.Tensor, trained: Parameters) -> torch.Tensor:
        """The last layer's weight after training."""
        return trained[self.head_weight]

    def features_stayed(self, trained: Parameters, initial: Parameters) -> bool:
        """One hidden layer that training has not moved."""
        first = self.first_weight
        known = first is not None and first in initial
        return self.one_hidden_layer and known and torch.equal(initial[first], trained[first])  # type: ignore[index]

    def fixed_features(
        self, trained: Parameters, *, alive: torch.Tensor, dtype: torch.dtype, memory: FeatureMemory
    ) -> MatrixFeatures:
        """The hidden layer."""
        return MatrixFeatures.of_layer(trained, self.activation, alive=alive, dtype=dtype, device=memory.device)

    def feature_blocks(self, trained: Parameters, *, device: torch.device | str = "cpu") -> FeatureBlocks:
        """All features at once."""
        features = self.features_at(trained, dtype=torch.float64, device=device)
        return lambda X: iter([features.value(X.to(device)).T.cpu()])

    def reordered(self, parameters: Parameters, order: torch.Tensor) -> dict[str, torch.Tensor]:
        """The last layer with its columns in another order."""
        head = self.head_weight
        return {name: value[:, order].contiguous() if name == head else value for name, value in parameters.items()}

    def in_words(self, initial: Parameters) -> str:
        """Architecture and width, and which layers are known from before training."""
        before = "all layers" if len(initial) > 1 else "the last layer" if initial else "no layer"
        return f"{self.architecture} of width {self.width}: all trained weights, and those of {before} before training"


@dataclass(frozen=True)
class ModuleSpec(NetworkSpec):
    """A user's own module, whose graph is known to this process alone."""

    own: nn.Module = field(kw_only=True, repr=False, compare=False)
    grows_with_inputs: bool = field(kw_only=True)  # phi(c x) = c phi(x) for c > 0, found by trying
    off_below_zero: bool = field(kw_only=True, default=False)  # the first layer is dense with a ReLU behind it, found by trying

    @property
    def homogeneous(self) -> bool:
        """As it was found by trying."""
        return self.grows_with_inputs

    @property
    def dense_first(self) -> bool:
        """Known where a ReLU was found behind it."""
        return self.off_below_zero

    @property
    def relu_behind_first(self) -> bool:
        """As it was found by trying."""
        return self.off_below_zero

    @property
    def one_hidden_layer(self) -> bool:
        """Not known to be so: the module is taken whole."""
        return False

    def graph(self) -> nn.Module:
        """A copy of the module."""
        return copy.deepcopy(self.own)

    def header(self) -> dict[str, Any]:
        """All fields but the module itself."""
        return {name: value for name, value in vars(self).items() if name != "own"} | {"kind": "module"}


def describe_network(
    name: str,
    shape: tuple[int, ...],
    *,
    outputs: int,
    last_layer: int,
    widths: tuple[int, ...] = (),
    bias: bool = False,
    activation: str = "relu",
) -> NetworkSpec:
    """The network of that name with these hidden widths, or whose last layer has about `last_layer` parameters in all."""
    kind = architecture(name)
    if widths:
        shared = {"activation": activation, "biased": bias, "head_biased": bias, "widths": tuple(widths)}
        return NetworkSpec(name, tuple(shape), outputs, widths[0], widths[-1], **shared)  # type: ignore[arg-type]
    per = kind.features_per_width(shape)
    width = max(1, round(last_layer / (outputs * per * kind.width_step))) * kind.width_step
    return NetworkSpec(name, tuple(shape), outputs, width, width * per, activation, bias, bias)


def initial_parameters(spec: NetworkSpec, *, seed: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Weights before training: as the architecture draws them, or normal (Appendix D) with norms at one and biases at zero."""
    graph, kind = spec.graph(), architecture(spec.architecture)
    shapes = {name: tuple(p.shape) for name, p in graph.named_parameters()}
    values: dict[str, torch.Tensor] = {}
    for index, (name, shape) in enumerate(shapes.items()):
        if kind.draw is not None:
            values[name] = kind.draw(graph, name, streams.generator(seed, "network", index)).to(dtype)
            continue
        if len(shape) < 2:
            values[name] = torch.full(shape, float("norm" in name and name.endswith("weight")), dtype=dtype)
            continue
        draw = torch.randn(shape, generator=streams.generator(seed, "network", index), dtype=torch.float64)
        values[name] = (draw * kind.initial_spread(spec, name, shape)).to(dtype)
    return values
