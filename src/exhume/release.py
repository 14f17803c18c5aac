"""Release: everything that an attacker holds, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from exhume.errors import ExhumeError
from exhume.files import check_safetensors, write_atomically

_FORMAT = "exhume-release-1"
_LARGEST = 1e15


@dataclass(frozen=True)
class FeatureSpec:
    """The public description of phi(x) = activation(V x): enough to draw V again."""

    input_dim: int  # d
    count: int  # p
    activation: str
    seed: int
    stream: str
    fingerprint: tuple[float, ...]  # first entries of the stream: another machine must draw the same
    kind: str = "random-features"


@dataclass(frozen=True)
class NetworkSpec:
    """The public description of a network: its computational graph, by the name under which it is registered."""

    architecture: str
    input_shape: tuple[int, ...]
    outputs: int  # k
    width: int  # hidden units, channels or embedding dimension
    count: int  # features that enter the last layer, h
    activation: str = "relu"
    biased: bool = False  # two-layer: the first layer has a bias
    head_biased: bool = False  # two-layer: the last layer has one
    head: str = "head"  # names of the last layer and of the first, None where that is no matrix or convolution
    first: str | None = "first"
    kind: str = "network"

    @property
    def input_dim(self) -> int:
        """d."""
        return math.prod(self.input_shape)


@dataclass(frozen=True)
class Facts:
    """What the attacker is assumed to know besides weights and features; None means unknown."""

    n: int | None = None  # number of training samples
    input_norm: float | None = None  # common norm of all inputs
    label_size: float | None = None  # |y|, where every label has the same size (1.0 for labels -1/+1)
    ridge: float | None = 0.0  # the lambda of training
    penalty: float | None = None  # n lambda, where that is known as a whole (scikit-learn's alpha)
    offset: float = 0.0  # the released intercept: f(x) = theta phi(x) + offset
    one_hot: bool = False  # targets are one-hot and fitted exactly
    pruned: bool = False  # weights that are zero belong to features that were removed
    input_range: tuple[float, float] | None = None  # least and largest value that an input can have (pixels)

    def __post_init__(self) -> None:
        for name in ("n", "input_norm", "label_size"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ExhumeError(f"the release's fact {name!r} must be positive, got {value}.")


@dataclass(frozen=True)
class Release:
    """A released model: last-layer weights (k, p), the feature map's description, and the threat model's facts.

    Of a network, `weights` is the change of the last layer, `trained` holds all parameters after training, and `initial`
    those parameters before training that the attacker knows.
    """

    weights: torch.Tensor
    features: FeatureSpec | NetworkSpec
    facts: Facts = field(default_factory=Facts)
    trained: Mapping[str, torch.Tensor] = field(default_factory=dict)
    initial: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        w, spec = self.weights, self.features
        if w.dtype not in (torch.float32, torch.float64):
            raise ExhumeError(f"weights must be float32 or float64, got {w.dtype}. Convert them first.")
        if w.ndim != 2 or w.shape[1] != spec.count:
            raise ExhumeError(f"weights must have shape (k, {spec.count}) for {spec.count} features, got {tuple(w.shape)}.")
        everything = [w, *self.trained.values(), *self.initial.values()]
        if not all(bool(torch.isfinite(tensor).all()) for tensor in everything):
            raise ExhumeError("weights contain NaN or infinity. Train the model again with finite data.")
        if float(w.abs().max()) > _LARGEST:
            raise ExhumeError(
                f"weights reach {float(w.abs().max()):.1e}, beyond {_LARGEST:g}: squares would overflow. Rescale them."
            )
        if not float(w.abs().max()) > 1 / _LARGEST:
            raise ExhumeError("all weights are zero (or nearly): the model has learned nothing that could be rebuilt.")

    @property
    def alive(self) -> torch.Tensor:
        """Which features the last layer still uses, (p,)."""
        last = self.weights if isinstance(self.features, FeatureSpec) else self.trained[f"{self.features.head}.weight"]
        return (last != 0).any(0) if self.facts.pruned else torch.ones(self.p, dtype=torch.bool)

    @property
    def fixed_features(self) -> bool:
        """Whether the last layer alone was trained, on features act(V x) that the attacker has: the weights lie in their span."""
        if isinstance(self.features, FeatureSpec):
            return True
        first = f"{self.features.first}.weight"
        moved = first not in self.initial or not torch.equal(self.initial[first], self.trained[first])
        return self.features.architecture == "two-layer" and not moved

    @property
    def k(self) -> int:
        """Outputs."""
        return self.weights.shape[0]

    @property
    def p(self) -> int:
        """Features, that is last-layer parameters per output."""
        return self.features.count

    @property
    def d(self) -> int:
        """Input dimension."""
        return self.features.input_dim


def save_release(release: Release, path: Path) -> None:
    """Write a release as one safetensors file with a JSON header."""
    header = {"format": _FORMAT, "features": asdict(release.features), "facts": asdict(release.facts)}
    metadata = {"exhume": json.dumps(header)}
    tensors = {"weights": release.weights}
    tensors |= {f"trained/{name}": tensor for name, tensor in release.trained.items()}
    tensors |= {f"initial/{name}": tensor for name, tensor in release.initial.items()}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))


def load_release(path: Path) -> Release:
    """Read a release; any other file is refused with the reason, and nothing in it is executed."""
    tensors, header = read_tensors(path, "release", _FORMAT)
    if "weights" not in tensors:
        raise ExhumeError(f"release {path} holds no tensor 'weights'. Write it again with `exhume train`.")
    described = header.get("features")
    network = isinstance(described, dict) and described.get("kind") == "network"
    spec = _record(NetworkSpec if network else FeatureSpec, described, path)
    facts = _record(Facts, header.get("facts"), path)
    return Release(tensors["weights"], spec, facts, _under(tensors, "trained/"), _under(tensors, "initial/"))


def _under(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def read_tensors(path: Path, what: str, expected: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and JSON header of one of our safetensors files, checked for being `expected`."""
    check_safetensors(path, what)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            header = json.loads(metadata.get("exhume", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError, OSError) as error:
        raise ExhumeError(f"{what} {path} is damaged: {str(error).splitlines()[0]}. Write it again.") from None
    if not isinstance(header, dict) or header.get("format") != expected:
        got = header.get("format") if isinstance(header, dict) else "a file without an exhume header"
        raise ExhumeError(f"{what} {path} must be {expected}, got {got}. Give the {what} file that exhume wrote.")
    return tensors, header


_NEEDS = {"bool": (bool,), "int": (int,), "float": (int, float), "str": (str,), "tuple": (list, tuple), "None": (type(None),)}


def _record(kind: type, values: object, path: Path) -> Any:
    """Build a frozen record from JSON, checking names and types field by field."""
    optional = {f.name for f in fields(kind) if f.default is not MISSING}
    names = {f.name for f in fields(kind)}
    if not isinstance(values, dict) or not names - optional <= set(values) <= names:
        raise ExhumeError(f"{path}: the header's {kind.__name__} has the wrong fields. Write the file again.")
    checked = {}
    for f in (f for f in fields(kind) if f.name in values):
        value = values[f.name]
        allowed = [t for word in str(f.type).split(" | ") for t in _NEEDS[word.split("[")[0]]]
        finite = not isinstance(value, float) or math.isfinite(value)
        if isinstance(value, bool) != (f.type == "bool") or not isinstance(value, tuple(allowed)) or not finite:
            raise ExhumeError(f"{path}: {kind.__name__}.{f.name} must be {f.type}, got {value!r}.")
        checked[f.name] = tuple(value) if isinstance(value, list) else value
    return kind(**checked)
