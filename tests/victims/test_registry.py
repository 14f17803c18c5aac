"""Victims by name: every setting arrives or is refused."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from exhume.architectures import NETWORKS
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.victims import VICTIMS, NetworkVictim, RandomFeaturesVictim, VictimSettings, make_victim

# Another value than the default for every setting.
OTHER: dict[str, object] = {
    "p": 77,
    "seed": 5,
    "dtype": torch.float32,
    "knowledge": Knowledge(n=True),
    "loss": "logistic",
    "k": 3,
    "activation": "tanh",
    "ridge": 0.5,
    "weight_decay": 0.25,
    "prune": 0.125,
    "init_scale": 0.01,
    "train_to": 1e-3,
    "schedule": "paper",
    "allow_underfit": True,
    "widths": (5, 4),
    "bias": True,
    "optimizer": "adam",
    "batch": 2,
    "lr": 0.125,
    "epochs": 7,
}


def test_every_setting_is_tried() -> None:
    assert set(OTHER) == {field.name for field in fields(VictimSettings)}


@pytest.mark.parametrize("name", VICTIMS)
@pytest.mark.parametrize("setting", OTHER)
def test_a_setting_arrives_or_is_refused_with_the_victims_that_take_it(name: str, setting: str) -> None:
    settings = replace(VictimSettings(p=100), **{setting: OTHER[setting]})  # type: ignore[arg-type]
    common = setting in ("p", "seed", "dtype", "knowledge", "loss", "prune")
    if common or setting in VICTIMS[name].takes:
        field = "last_layer" if setting == "p" and name != "rf" else setting
        assert getattr(make_victim(name, settings), field) == OTHER[setting]
        return
    others = [other for other in VICTIMS if setting in VICTIMS[other].takes]
    message = f"--victim {name} does not take --{setting.replace('_', '-')}. Leave it out, or use --victim {' or '.join(others)}."
    with pytest.raises(ExhumeError) as error:
        make_victim(name, settings)
    assert str(error.value) == message


def test_settings_that_are_not_given_are_the_victims_own() -> None:
    assert make_victim("rf", VictimSettings(p=100)) == RandomFeaturesVictim(p=100)
    for name in NETWORKS:
        assert make_victim(name, VictimSettings(p=100)) == NetworkVictim(name, 100)


def test_every_network_is_a_victim_beside_random_features() -> None:
    assert list(VICTIMS) == ["rf", *NETWORKS]
    assert isinstance(make_victim("rf", VictimSettings(p=10)), RandomFeaturesVictim)
    for name in NETWORKS:
        victim = make_victim(name, VictimSettings(p=10))
        assert isinstance(victim, NetworkVictim)
        assert victim.architecture == name


def test_an_unknown_victim_suggests_the_nearest() -> None:
    with pytest.raises(ExhumeError, match=r"unknown victim 'two-layers'\. Did you mean 'two-layer'"):
        make_victim("two-layers", VictimSettings(p=10))
