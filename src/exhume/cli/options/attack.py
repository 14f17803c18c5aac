"""Which attack: options -> Attack."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from exhume.cli.command_tools import options

if TYPE_CHECKING:
    from exhume.attacks import Attack


class AttackName(click.ParamType):
    """The name of a registered attack; the shell completes it."""

    name = "attack"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Registered names that begin so."""
        from exhume.attacks import ATTACKS

        return [CompletionItem(name, help=attack.about) for name, attack in ATTACKS.items() if name.startswith(incomplete)]


class StepSize(click.ParamType):
    """A positive number, or `auto`."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """The text as a number or `auto`."""
        if value == "auto":
            return "auto"
        try:
            size = float(value)
        except ValueError:
            size = math.nan
        if not 0 < size < math.inf:
            self.fail(f"a step size is a positive number or auto, got {value!r}.", param, ctx)
        return size


descent_options = options(
    click.option("--max-steps", type=int, help="Attacks that descend: most steps (default: as published)."),
    click.option("--step-size", type=StepSize(), help="Attacks that descend: a number or auto (default: as published)."),
)

attack_options = options(
    click.option(
        "--attack",
        type=AttackName(),
        help="The attack; `exhume compare --list` names all (default: first-layer where it applies, else gauss-newton).",
    ),
    click.option("--rows", type=int, help="Number of rows to look for, as if somebody claimed to know n."),
    click.option("--starts", type=int, help="gauss-newton, replay: how often to start anew (default 4, 8)."),
    click.option(
        "--start-from",
        "start",
        help="replay: an attack whose rows to start from, or random (default: first-layer where it applies).",
    ),
    descent_options,
)


def attack_from(given: dict[str, Any], *, first_layer: bool) -> Attack:
    """The attack that the options describe; a setting of another attack is an error.

    `first_layer` says whether the first layer can be read: then that is the default, unless a setting asks for gauss-newton.
    """
    from exhume.attacks import attack_named

    settings = {name: given[name] for name in ("rows", "starts", "start", "max_steps", "step_size")}
    default = "first-layer" if first_layer and given["starts"] is None else "gauss-newton"
    return attack_named(given["attack"] or default, **settings)
