"""A model of one's own: options -> AuditInputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.cli.command_tools import options

if TYPE_CHECKING:
    from exhume.auditing import AuditInputs


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


model_options = options(
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

own_data_options = options(
    click.option(
        "--data", type=click.Path(path_type=Path), required=True, help="What it was trained on: npz (X, y), CSV, folder of images."
    ),
    click.option(
        "--holdout", type=click.Path(path_type=Path), help="Samples it was not trained on, for false positives and utility."
    ),
    click.option("--within", type=float, default=0.1, show_default=True, help="Relative distance below which a sample is rebuilt."),
)


def inputs_from(given: dict[str, Any]) -> AuditInputs:
    """The model and its data as the options name them."""
    from exhume.auditing import AuditInputs
    from exhume.errors import ExhumeError

    if given["trained"] is None:
        raise ExhumeError("name the trained model with --trained: weights, a .skops pipeline or a .pt2 program.")
    return AuditInputs(
        given["trained"],
        given["data"],
        model=given["model"],
        init=given["init"],
        held_out=given.get("holdout"),
        head=given["head"],
        mean=given["mean"],
        spread=given["std"],
        n=given["n"],
        trust_code=given["trust_code"],
    )
