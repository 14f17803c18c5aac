"""Options of the command line -> the model and data that a user brings to an audit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.cli import common

if TYPE_CHECKING:
    from exhume.auditing import Brought, Knowledge


class Numbers(click.ParamType):
    """Numbers with commas between them."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """The text as numbers."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"expected numbers with commas between them, got {value!r}.", param, ctx)


model_options = common.options(
    click.option("--model", help="package.module:factory of a torch.nn.Module (its code is imported)."),
    click.option(
        "--trained", type=click.Path(path_type=Path), help="Weights (.safetensors, .pt), pipeline (.skops), program (.pt2)."
    ),
    click.option("--init", type=click.Path(path_type=Path), help="Weights before training, where an attacker may have them."),
    click.option("--head", help="Name of the last linear layer (default: found by running the model)."),
    click.option("--trust-code", is_flag=True, help="Load .pt2 programs, which can run code."),
    click.option("--mean", type=Numbers(), default="0", show_default=True, help="The model is fed (x - mean) / std."),
    click.option("--std", type=Numbers(), default="1", show_default=True, help="One number, one per channel or per column."),
    click.option("--n", type=int, help="Use the first n samples of --data."),
)

data_options = common.options(
    click.option(
        "--data", type=click.Path(path_type=Path), required=True, help="What it was trained on: npz (X, y), CSV, folder of images."
    ),
    click.option(
        "--holdout", type=click.Path(path_type=Path), help="Samples it was not trained on, for false positives and utility."
    ),
    click.option("--within", type=float, default=0.1, show_default=True, help="Relative distance below which a sample is rebuilt."),
)

knowledge_options = common.options(
    click.option(
        "--know-init",
        type=click.Choice(["all", "last", "none"]),
        default="all",
        show_default=True,
        help="Of --init, what the attacker knows: all, the last layer (head only), none.",
    ),
    click.option("--know-n", is_flag=True, help="Tell the attacker the number of samples."),
    click.option("--hide-stats", is_flag=True, help="The attacker does not know mean and spread of the inputs."),
    click.option("--hide-labels", is_flag=True, help="The attacker does not know what labels look like."),
)


def brought_from(options: dict[str, Any]) -> Brought:
    """The model and its data as the options name them."""
    from exhume.auditing import Brought
    from exhume.errors import ExhumeError

    if options["trained"] is None:
        raise ExhumeError("name the trained model with --trained: weights, a .skops pipeline or a .pt2 program.")
    return Brought(
        options["trained"],
        options["data"],
        model=options["model"],
        init=options["init"],
        held_out=options.get("holdout"),
        head=options["head"],
        mean=options["mean"],
        spread=options["std"],
        n=options["n"],
        trust_code=options["trust_code"],
    )


def knowledge_from(options: dict[str, Any]) -> Knowledge:
    """What the attacker knows by the options."""
    from exhume.auditing import Knowledge

    return Knowledge(options["know_init"], options["know_n"], not options["hide_stats"], not options["hide_labels"])
