"""What the attacker knows: the switches are the fields of `Knowledge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from exhume.cli.command_tools import options

if TYPE_CHECKING:
    from exhume.knowledge import Knowledge

knowledge_options = options(
    click.option(
        "--know-init",
        type=click.Choice(["all", "last", "none"]),
        default="all",
        show_default=True,
        help="Weights before training that the attacker knows: all, the last layer's, none.",
    ),
    click.option("--know-n", is_flag=True, help="Tell the attacker the number of samples."),
    click.option(
        "--hide-stats", "--hide-norm", "hide_stats", is_flag=True, help="Hide norm, mean, spread and range of the inputs."
    ),
    click.option("--hide-labels", is_flag=True, help="Do not tell the attacker what labels look like."),
    click.option("--know-optimizer", is_flag=True, help="Release the optimizer's state too, as a training checkpoint does."),
    click.option("--know-recipe", is_flag=True, help="Tell the attacker how training went: step sizes, batches and their order."),
)


def knowledge_from(given: dict[str, Any]) -> Knowledge:
    """What the attacker knows by the options."""
    from exhume.knowledge import Knowledge

    return Knowledge(
        init=given["know_init"],
        n=given["know_n"],
        statistics=not given["hide_stats"],
        labels=not given["hide_labels"],
        optimizer=given["know_optimizer"],
        recipe=given["know_recipe"],
    )
