"""Attacks by name: settings that fit, settings that do not, and new attacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from exhume.attacks import registry
from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.gradient_matching.published import NTK
from exhume.attacks.registry import ATTACKS, attack_named, register, settings_of
from exhume.attacks.subspace import Subspace
from exhume.errors import ExhumeError
from support.power_attack import PowerAttack


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(ATTACKS)
    yield
    ATTACKS.clear()
    ATTACKS.update(before)


def test_the_published_and_our_own_attacks_are_there_under_their_names() -> None:
    assert list(ATTACKS) == ["gauss-newton", "first-layer", "subspace", "replay", "projection-gd", "kkt", "kkt-multiclass", "ntk"]
    assert all(attack.name == name for name, attack in ATTACKS.items())


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("gauss-newton", {}, GaussNewton()),
        ("gauss-newton", {"starts": 2, "rows": 7}, GaussNewton(starts=2, rows=7)),
        ("gauss-newton", {"starts": None, "rows": None}, GaussNewton()),  # None is no setting
        ("gauss-newton", {"no_such": None}, GaussNewton()),
        ("subspace", {"linearise": "trained"}, Subspace(linearise="trained")),
        ("ntk", {"step_size": "auto", "max_steps": 3}, replace(NTK, step_size="auto", max_steps=3)),
    ],
)
def test_a_name_with_settings_is_that_attack(name: str, settings: dict[str, object], expected: object) -> None:
    assert attack_named(name, **settings) == expected
    assert attack_named(name) == ATTACKS[name]  # the registered one stays as it was


def test_a_misspelt_name_gets_the_nearest() -> None:
    with pytest.raises(
        ExhumeError, match=r"unknown attack 'gaus-newton'\. Did you mean 'gauss-newton'\? Known: first-layer, gauss-newton, kkt"
    ):
        attack_named("gaus-newton")


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"starts": 2}, "--starts"),
        ({"turnover": 0.2, "starts": 2, "rows": 4, "cg_steps": 3, "leak": 0.1}, "--cg-steps or --leak or --starts or --turnover"),
    ],
)
def test_settings_of_other_attacks_are_refused_as_options(settings: dict[str, object], options: str) -> None:
    with pytest.raises(ExhumeError, match=rf"^subspace does not take {options}\. Leave it out\.$"):
        attack_named("subspace", **settings)


def test_settings_are_what_a_person_may_choose() -> None:
    assert settings_of("subspace") == {"linearise", "rows"}
    assert settings_of("gauss-newton") == {f.name for f in fields(GaussNewton)} - {"name", "about", "needs"}
    assert {"step_size", "max_steps", "leak", "switches"} <= settings_of("projection-gd")


def test_a_registered_attack_is_found_with_its_settings() -> None:
    register(PowerAttack())
    assert attack_named("power", rounds=3) == PowerAttack(rounds=3)
    assert settings_of("power") == {"rows", "rounds"}


def test_the_last_attack_of_a_name_counts() -> None:
    register(PowerAttack(rounds=2))
    register(PowerAttack(rounds=5))
    assert attack_named("power") == PowerAttack(rounds=5)


def test_another_member_of_the_family_is_one_replace() -> None:
    register(replace(NTK, name="ntk-midpoint", switches=replace(NTK.switches, point="midpoint")))
    found = attack_named("ntk-midpoint", max_steps=5)
    assert (found.switches.point, found.max_steps) == ("midpoint", 5)  # type: ignore[attr-defined]
    assert registry.ATTACKS["ntk"] == NTK
