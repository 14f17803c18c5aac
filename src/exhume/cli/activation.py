"""`exhume activation`: what an activation gives away."""

from __future__ import annotations

from dataclasses import asdict

import click

from exhume.cli import command_tools as tools


@click.command("activation", short_help="What an activation gives away: sign, scale, start.")
@click.argument("name", required=False)
@tools.json_option
@tools.guarded
def command(name: str | None, as_json: bool) -> None:
    """Hermite coefficients of activation NAME and what they imply; without NAME, a list.

    \b
    exhume activation relu+tanh
    """
    from exhume.features import ACTIVATIONS, activation, read_activation

    if name is None:
        listed = {one.name: one.formula for one in ACTIVATIONS.values()}
        if as_json:
            tools.emit_json(listed)
        else:
            tools.print_table("activations", list(listed.items()))
        return
    one = activation(name)
    reading = read_activation(one)
    if as_json:
        tools.emit_json({"name": one.name, "formula": one.formula} | asdict(reading))
        return
    yes = {True: "yes", False: "no"}
    tools.print_table(
        f"{one.name}: phi(z) = {one.formula}",
        [
            *((f"mu_{l}", f"{c:+.6f}") for l, c in enumerate(reading.coefficients)),
            ("sign identifiable?", f"{yes[reading.sign_identifiable]}: {reading.sign_reason}"),
            ("scale identifiable?", f"{yes[reading.scale_identifiable]}: {reading.scale_reason}"),
            ("moment start?", f"{yes[reading.moment_start]}: {reading.moment_reason}"),
            ("paper's Assumption 2?", yes[reading.assumption_2]),
        ],
    )
