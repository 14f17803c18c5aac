"""Release: everything that an attacker holds, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from exhume.architectures import ModuleSpec, NetworkSpec
from exhume.errors import ExhumeError
from exhume.features import BlockwiseFeatures, FeatureMemory, ModelSpec, RandomFeaturesSpec
from exhume.knowledge import Facts
from exhume.storage.records import checked_record
from exhume.storage.tensor_file import read_tensors, write_tensors
from exhume.training_recipe import Recipe

_FORMAT = "exhume-release-1"
# Kinds of models that a file can describe.
_SPECS: dict[str, type[ModelSpec]] = {spec.kind: spec for spec in (RandomFeaturesSpec, NetworkSpec)}
_LARGEST = 1e15


@dataclass(frozen=True)
class Release:
    """A released model: what training added to the last layer, the model's description, and the threat model's facts.

    Of a network, `trained` holds all parameters after training, and `initial` those before training that the attacker knows.
    """

    weights: torch.Tensor  # (k, p): theta_T - theta_0 of the last layer, or theta_T where theta_0 is not known
    model: ModelSpec
    facts: Facts = field(default_factory=Facts)
    trained: Mapping[str, torch.Tensor] = field(default_factory=dict)
    initial: Mapping[str, torch.Tensor] = field(default_factory=dict)
    optimizer: Mapping[str, torch.Tensor] = field(default_factory=dict)  # its state: "exp_avg/first.weight" and the like
    recipe: Recipe | None = None  # how training went, where the attacker knows that

    def __post_init__(self) -> None:
        w = self.weights
        if w.dtype not in (torch.float32, torch.float64):
            raise ExhumeError(f"weights must be float32 or float64, got {w.dtype}. Convert them first.")
        if w.ndim != 2 or w.shape[1] != self.model.p:
            raise ExhumeError(f"weights must have shape (k, {self.model.p}) for {self.model.p} features, got {tuple(w.shape)}.")
        everything = [w, *self.trained.values(), *self.initial.values(), *self.optimizer.values()]
        if not all(bool(torch.isfinite(tensor).all()) for tensor in everything):
            raise ExhumeError("weights contain NaN or infinity. Train the model again with finite data.")
        largest = float(w.abs().max())
        if largest > _LARGEST:
            raise ExhumeError(f"weights reach {largest:.1e}, beyond {_LARGEST:g}: squares would overflow. Rescale them.")
        if not largest > 1 / _LARGEST:
            raise ExhumeError("all weights are zero (or nearly): the model has learned nothing that could be rebuilt.")

    @property
    def k(self) -> int:
        """Outputs."""
        return self.weights.shape[0]

    @property
    def p(self) -> int:
        """Features, that is last-layer parameters per output."""
        return self.model.p

    @property
    def d(self) -> int:
        """Input dimension."""
        return self.model.d

    @property
    def network(self) -> NetworkSpec:
        """The description of a network; any other model is refused."""
        if not isinstance(self.model, NetworkSpec):
            raise ExhumeError("expected the release of a network, got random features, which have one trained layer only.")
        return self.model

    @property
    def alive(self) -> torch.Tensor:
        """Which features the last layer still uses, (p,)."""
        if not self.facts.pruned:
            return torch.ones(self.p, dtype=torch.bool)
        return (self.model.last_layer(self.weights, self.trained) != 0).any(0)

    @property
    def features_stayed(self) -> bool:
        """Whether the last layer alone was trained, on features that the attacker has: the weights then lie in their span."""
        return self.model.features_stayed(self.trained, self.initial)

    def fixed_features(self, memory: FeatureMemory) -> BlockwiseFeatures:
        """The features that the last layer still uses, where they stayed as they were."""
        return self.model.fixed_features(self.trained, alive=self.alive, dtype=self.weights.dtype, memory=memory)

    @property
    def first_bias(self) -> str | None:
        """Name of the first layer's bias, where it has one."""
        first = self.model.first_weight
        name = None if first is None else f"{first.removesuffix('weight')}bias"
        return name if name in self.trained else None

    def first_layer(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The first layer before and after training, where both are known."""
        name = self.model.first_weight
        return (self.initial[name], self.trained[name]) if name is not None and name in self.initial else None


def save_release(release: Release, path: str | Path) -> None:
    """Write a release as one safetensors file with a JSON header."""
    if isinstance(release.model, ModuleSpec):
        raise ExhumeError("the release of a module of your own cannot be written: a file has no form for its graph.")
    tensors = {"weights": release.weights}
    tensors |= {f"trained/{name}": tensor for name, tensor in release.trained.items()}
    tensors |= {f"initial/{name}": tensor for name, tensor in release.initial.items()}
    tensors |= {f"optimizer/{name}": tensor for name, tensor in release.optimizer.items()}
    header = {"format": _FORMAT, "features": release.model.header(), "facts": asdict(release.facts)}
    header |= {} if release.recipe is None else {"recipe": asdict(release.recipe)}
    write_tensors(Path(path), tensors, header)


def load_release(path: str | Path) -> Release:
    """Read a release; any other file is refused with the reason, and nothing in it is executed."""
    path = Path(path)
    tensors, header = read_tensors(path, "release", _FORMAT)
    if "weights" not in tensors:
        raise ExhumeError(f"release {path} holds no tensor 'weights'. Write it again with `exhume train`.")
    described = header.get("features")
    kind = described.get("kind") if isinstance(described, dict) else None
    if not isinstance(described, dict) or kind not in _SPECS:
        raise ExhumeError(
            f"release {path} describes a model of kind {kind!r}, this exhume knows {', '.join(_SPECS)}. Update exhume."
        )
    spec = checked_record(_SPECS[kind], {name: value for name, value in described.items() if name != "kind"}, path)
    facts = checked_record(Facts, header.get("facts"), path)
    trained, initial, optimizer = (_under(tensors, f"{part}/") for part in ("trained", "initial", "optimizer"))
    recipe = checked_record(Recipe, header["recipe"], path) if "recipe" in header else None
    return Release(tensors["weights"], spec, facts, trained, initial, optimizer, recipe)


def _under(tensors: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
