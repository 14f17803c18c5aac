"""Options of attacks: names that the shell completes, step sizes, and settings of the right attack."""

from __future__ import annotations

import click
import pytest

from exhume.attacks import ATTACKS, GaussNewton, attack_named
from exhume.cli.options.attack import AttackName, StepSize, attack_from, attack_options, descent_options
from exhume.cli.reconstruct import command
from exhume.errors import ExhumeError
from support.options import parsed


@pytest.mark.parametrize(("begin", "names"), [("", set(ATTACKS)), ("kkt", {"kkt", "kkt-multiclass"}), ("x", set())])
def test_the_shell_completes_registered_names(begin: str, names: set[str]) -> None:
    parameter = next(one for one in command.params if one.name == "attack")
    items = AttackName().shell_complete(click.Context(command), parameter, begin)
    assert {item.value for item in items} == names
    assert all(item.help == ATTACKS[item.value].about for item in items)


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("0.5", 0.5), ("1e3", 1000.0)])
def test_a_step_size_is_a_number_or_auto(text: str, value: float | str) -> None:
    assert StepSize().convert(text, None, None) == value


@pytest.mark.parametrize("text", ["fast", "0", "-1", "nan", "inf", ""])
def test_other_step_sizes_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="a step size is a positive number or auto, got"):
        StepSize().convert(text, None, None)


def test_nothing_given_is_gauss_newton_as_it_is() -> None:
    assert attack_from(parsed(attack_options), first_layer=False) == GaussNewton()


def test_where_the_first_layer_can_be_read_it_is() -> None:
    assert attack_from(parsed(attack_options), first_layer=True) == attack_named("first-layer")
    assert attack_from(parsed(attack_options, "--starts", "2"), first_layer=True) == GaussNewton(starts=2)
    assert attack_from(parsed(attack_options, "--attack", "subspace"), first_layer=True) == attack_named("subspace")


def test_settings_go_to_the_attack_that_takes_them() -> None:
    assert attack_from(parsed(attack_options, "--starts", "2", "--rows", "7"), first_layer=False) == GaussNewton(starts=2, rows=7)
    given = parsed(attack_options, "--attack", "projection-gd", "--max-steps", "50", "--step-size", "auto")
    assert attack_from(given, first_layer=False) == attack_named("projection-gd", max_steps=50, step_size="auto")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-steps", "5"], "gauss-newton does not take --max-steps"),
        (["--attack", "kkt", "--starts", "2"], "kkt does not take --starts"),
        (["--attack", "gauss"], "Did you mean 'gauss-newton'"),
    ],
)
def test_a_setting_of_another_attack_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        attack_from(parsed(attack_options, *arguments), first_layer=False)


def test_descents_have_two_options_of_their_own() -> None:
    assert parsed(descent_options) == {"max_steps": None, "step_size": None}
