"""Options of a trial: victim, data, knowledge and attack in one value."""

from __future__ import annotations

from typing import Any

import click
import pytest

from exhume.attacks import GaussNewton, attack_named
from exhume.cli.command_tools import options, seed_option
from exhume.cli.options.attack import attack_options
from exhume.cli.options.data import data_options
from exhume.cli.options.trial import trial_from, victim_options
from exhume.data import DataRequest
from exhume.knowledge import Knowledge
from exhume.lab import Trial
from support.options import parsed

WITHOUT = options(data_options, victim_options, seed_option)
WITH = options(WITHOUT, attack_options)


def test_nothing_given_is_a_trial_on_the_sphere() -> None:
    assert trial_from(parsed(WITHOUT)) == trial_from(parsed(WITH)) == Trial(DataRequest("sphere"))


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        (["--victim", "two-layer"], {"victim": "two-layer", "attack": attack_named("first-layer")}),
        (["--victim", "two-layer", "--know-init", "last"], {"victim": "two-layer", "knowledge": Knowledge(init="last")}),
        (
            ["--victim", "mlp", "--widths", "8,4", "--bias"],
            {"victim": "mlp", "widths": (8, 4), "bias": True, "attack": attack_named("first-layer")},
        ),
        (["--victim", "mlp", "--activation", "tanh"], {"victim": "mlp", "activation": "tanh"}),
        (["--victim", "mlp", "--optimizer", "adam"], {"victim": "mlp", "optimizer": "adam"}),
        (["--batch", "3", "--lr", "0.5", "--epochs", "7"], {"batch": 3, "lr": 0.5, "epochs": 7}),
        (["--loss", "logistic"], {"loss": "logistic"}),
        (["--k", "3"], {"k": 3}),
        (["--ratio", "2.5"], {"ratio": 2.5}),
        (["--p", "77"], {"p": 77}),
        (["--activation", "tanh"], {"activation": "tanh"}),
        (["--ridge", "0.1"], {"ridge": 0.1}),
        (["--weight-decay", "0.2"], {"weight_decay": 0.2}),
        (["--prune", "0.3"], {"prune": 0.3}),
        (["--init-scale", "0.4"], {"init_scale": 0.4}),
        (["--train-to", "1e-5"], {"train_to": 1e-5}),
        (["--paper-schedule"], {"schedule": "paper"}),
        (["--dtype", "float32"], {"dtype": "float32"}),
        (["--allow-underfit"], {"allow_underfit": True}),
        (["--know-n", "--hide-labels"], {"knowledge": Knowledge(n=True, labels=False)}),
        (["--attack", "ntk", "--max-steps", "9"], {"attack": attack_named("ntk", max_steps=9)}),
    ],
)
def test_every_option_is_a_field_of_the_trial(arguments: list[str], changes: dict[str, Any]) -> None:
    assert trial_from(parsed(WITH, *arguments)) == Trial(DataRequest("sphere"), **changes)


def test_one_seed_serves_data_and_victim() -> None:
    made = trial_from(parsed(WITHOUT, "--seed", "6", "--n", "7"))
    assert (made.seed, made.data) == (6, DataRequest("sphere", n=7, seed=6))


@pytest.mark.parametrize(
    ("source", "k", "expected"),
    [("cifar10", "10", "cifar10-multi"), ("cifar10", "2", "cifar10"), ("cifar10", "1", "cifar10"), ("digits", "10", "digits")],
)
def test_ten_outputs_on_cifar10_mean_its_ten_classes(source: str, k: str, expected: str) -> None:
    assert trial_from(parsed(WITHOUT, "--data", source, "--k", k)).data.source == expected


def test_a_command_without_an_attack_gets_the_default_one() -> None:
    assert trial_from(parsed(WITHOUT)).attack == GaussNewton()


def test_other_precisions_are_refused() -> None:
    with pytest.raises(click.UsageError, match="'float16' is not one of 'auto', 'float32', 'float64'"):
        parsed(WITHOUT, "--dtype", "float16")
