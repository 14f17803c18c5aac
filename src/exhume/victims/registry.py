"""The victims by name, and how each is made from the settings of a trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch

from exhume.architectures import NETWORKS
from exhume.errors import ExhumeError, unknown_name
from exhume.knowledge import Knowledge
from exhume.victims.interface import Victim
from exhume.victims.network import NetworkVictim
from exhume.victims.random_features import RandomFeaturesVictim


@dataclass(frozen=True)
class VictimSettings:
    """Everything that a trial can say about its victim; each kind takes some of it."""

    p: int  # parameters of the last layer, all outputs together
    seed: int = 0
    dtype: torch.dtype = torch.float64
    knowledge: Knowledge = Knowledge()
    loss: str = "square"
    k: int = 1
    activation: str = "relu"
    ridge: float = 0.0
    weight_decay: float = 0.0
    prune: float = 0.0
    init_scale: float = 1.0
    train_to: float | None = None
    schedule: str = "fast"
    allow_underfit: bool = False
    widths: tuple[int, ...] = ()
    bias: bool = False
    optimizer: str = "gd"
    batch: int | None = None
    lr: float | None = None
    epochs: int | None = None


# Every victim takes these.
_COMMON = frozenset({"p", "seed", "dtype", "knowledge", "loss", "prune"})


@dataclass(frozen=True)
class VictimKind:
    """A registered victim."""

    about: str
    takes: frozenset[str]  # settings besides the common ones
    make: Callable[[VictimSettings], Victim]


def _random_features(settings: VictimSettings) -> Victim:
    names = {f.name for f in fields(RandomFeaturesVictim)}
    return RandomFeaturesVictim(**{name: value for name, value in vars(settings).items() if name in names})


def _network(architecture: str) -> Callable[[VictimSettings], Victim]:
    def make(settings: VictimSettings) -> Victim:
        names = {f.name for f in fields(NetworkVictim)}
        shared = {name: value for name, value in vars(settings).items() if name in names}
        return NetworkVictim(architecture=architecture, last_layer=settings.p, **shared)

    return make


_NETWORK_TAKES = frozenset({"k", "weight_decay", "init_scale", "train_to", "schedule", "optimizer", "batch", "lr", "epochs"})
_TAKEN_BESIDES = {"mlp": frozenset({"widths", "bias", "activation"})}

VICTIMS: dict[str, VictimKind] = {
    "rf": VictimKind(
        "random-features regression, closed form", frozenset({"activation", "ridge", "allow_underfit"}), _random_features
    )
} | {
    name: VictimKind(network.about, _NETWORK_TAKES | _TAKEN_BESIDES.get(name, frozenset()), _network(name))
    for name, network in NETWORKS.items()
}


def make_victim(name: str, settings: VictimSettings) -> Victim:
    """The victim of that name; a setting that it does not use is refused by name."""
    if name not in VICTIMS:
        raise unknown_name("victim", name, VICTIMS)
    kind, defaults = VICTIMS[name], VictimSettings(p=settings.p)
    for f in fields(VictimSettings):
        used = f.name in _COMMON or f.name in kind.takes
        if not used and getattr(settings, f.name) != getattr(defaults, f.name):
            others = [other for other, one in VICTIMS.items() if f.name in one.takes]
            option = "--" + f.name.replace("_", "-")
            raise ExhumeError(f"--victim {name} does not take {option}. Leave it out, or use --victim {' or '.join(others)}.")
    return kind.make(settings)
