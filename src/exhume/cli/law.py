"""`exhume law`: p, d, n -> what to expect, in seconds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.own_model import inputs_from, model_options


@click.command("law", short_help="p, d, n: what to expect, in seconds.")
@click.option("--p", type=int, help="Last-layer parameters (features).")
@click.option("--ratio", type=float, help="p / (d n), instead of --p.")
@click.option("--d", type=int, help="Input dimension.")
@click.option("--activation", default="relu", show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="Training data of your own model, with --trained.")
@model_options
@tools.json_option
@tools.guarded
def command(p: int | None, ratio: float | None, d: int | None, activation: str, as_json: bool, **options: Any) -> None:
    """Say whether a model of this size, or your own model, can give up its training data.

    \b
    exhume law --p 8000 --d 100 --n 20
    exhume law --ratio 0.5 --d 3072 --n 100
    exhume law --trained pipeline.skops --data train.csv
    """
    from exhume.errors import ExhumeError
    from exhume.prediction.expectation import expect

    n = options["n"]
    if options["trained"] is not None:
        _own(options, as_json=as_json)
        return
    if d is None or n is None:
        raise ExhumeError("give --d and --n with --p or --ratio, or your own model with --trained and --data.")
    if (p is None) == (ratio is None):
        raise ExhumeError("give either --p or --ratio.")
    if p is None:
        if ratio is None or not 0 < ratio < 1e9:
            raise ExhumeError(f"--ratio must be a positive number, got {ratio}.")
        p = round(ratio * d * n)
    law = expect(p, d, n, activation)
    if as_json:
        tools.emit_json(asdict(law))
        return
    tools.print_table(
        f"reconstruction is {law.outcome}",
        [
            ("p / (d n)", f"{law.p} / ({law.d} x {law.n}) = {law.ratio:.3g}"),
            ("why", law.sentence),
            ("labels", "can be fitted (p >= n)" if law.interpolates else "cannot be fitted (p < n)"),
            ("count", f"{law.equations} equations, {law.unknowns} unknowns"),
            ("sign", law.sign),
            ("scale", law.scale),
            ("V", f"{law.memory_gb:.3g} GB in float32, if it were held as a whole"),
            (
                "an attack takes",
                f"about {tools.human_seconds(law.seconds)} here (GEMM at {law.gemm_gflops:.0f} GFLOP/s)",
            ),
        ],
    )


def _own(options: dict[str, Any], *, as_json: bool) -> None:
    """The law on a user's model and data: no attack is run."""
    from exhume.auditing import preflight, subject_of
    from exhume.errors import ExhumeError

    if options["data"] is None:
        raise ExhumeError("the law needs the training data of --trained. Give --data.")
    subject, _ = subject_of(inputs_from(options))
    law = preflight(subject)
    if as_json:
        tools.emit_json(asdict(law))
        return
    lines = [
        ("model", subject.about),
        ("p / (d n)", f"{law.p} / ({law.d} x {law.n}) = {law.ratio:.3g}"),
        ("p / (r n)", f"{law.ratio_effective:.3g}: {law.effective_dimension} directions carry 99% of the data"),
        ("why", law.sentence),
        ("fit", f"training error {law.train_error:.3g}" + (", it interpolates" if law.interpolates else "")),
        ("conditioning", f"{law.conditioning:.1e}"),
        ("drift", "not known" if law.drift is None else f"{law.drift:.1%}"),
        ("sign", law.sign),
        ("length", law.scale),
        ("an attack takes", f"about {tools.human_seconds(law.seconds)} and {law.memory_gb:.2g} GB here"),
    ]
    tools.print_table(f"reconstruction is {law.outcome}", lines + [("note", warning) for warning in law.warnings])
