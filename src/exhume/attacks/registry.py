"""The attacks by name: the command line, `compare` and `audit` find them here."""

from __future__ import annotations

from dataclasses import fields, replace

from exhume.attacks.first_layer import FirstLayer
from exhume.attacks.gauss_newton import GaussNewton
from exhume.attacks.gradient_matching.published import KKT, KKT_MULTICLASS, NTK, PROJECTION_GD
from exhume.attacks.interface import Attack
from exhume.attacks.replay import Replay
from exhume.attacks.subspace import Subspace
from exhume.errors import ExhumeError, unknown_name

ATTACKS: dict[str, Attack] = {}


def register(attack: Attack) -> None:
    """Make an attack known under its name; one of the same name is replaced."""
    ATTACKS[attack.name] = attack


for _attack in (GaussNewton(), FirstLayer(), Subspace(), Replay(), PROJECTION_GD, KKT, KKT_MULTICLASS, NTK):
    register(_attack)


def attack_named(name: str, **settings: object) -> Attack:
    """The registered attack with these settings; None leaves a default, and a setting that the attack does not have is refused.

    >>> attack_named("gauss-newton", starts=2).starts
    2
    """
    if name not in ATTACKS:
        raise unknown_name("attack", name, ATTACKS)
    given = {key: value for key, value in settings.items() if value is not None}
    wrong = sorted(given.keys() - settings_of(name))
    if wrong:
        options = " or ".join("--" + key.replace("_", "-") for key in wrong)
        raise ExhumeError(f"{name} does not take {options}. Leave it out.")
    return replace(ATTACKS[name], **given)  # type: ignore[type-var]


def settings_of(name: str) -> set[str]:
    """Names of the settings that an attack takes."""
    return {f.name for f in fields(ATTACKS[name]) if f.init}  # type: ignore[arg-type]
