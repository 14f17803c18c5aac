"""`exhume law`: p, d, n -> what to expect, in seconds."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.own_model import inputs_from, model_options
from exhume.cli.options.trial import widths_of


@click.command("law", short_help="p, d, n: what to expect, in seconds.")
@click.option("--p", type=int, help="Last-layer parameters (features).")
@click.option("--ratio", type=float, help="p / (d n), instead of --p.")
@click.option("--d", type=int, help="Input dimension.")
@click.option("--widths", help="Units of a network's hidden layers, as in 512,256, instead of --p.", callback=widths_of)
@click.option("--k", type=int, default=1, show_default=True, help="Outputs of that network.")
@click.option("--activation", default="relu", show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="Training data of your own model, with --trained.")
@model_options
@tools.json_option
@tools.guarded
def command(
    p: int | None,
    ratio: float | None,
    d: int | None,
    widths: tuple[int, ...],
    k: int,
    activation: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Say whether a model of this size, or your own model, can give up its training data.

    \b
    exhume law --p 8000 --d 100 --n 20
    exhume law --ratio 0.5 --d 3072 --n 100
    exhume law --widths 512,256 --k 10 --d 3072 --n 20
    exhume law --trained pipeline.skops --data train.csv
    """
    from exhume.errors import ExhumeError
    from exhume.prediction.expectation import expect, expect_first_layer

    n = options["n"]
    if options["trained"] is not None:
        _own(options, as_json=as_json)
        return
    if d is None or n is None:
        raise ExhumeError("give --d and --n with --p or --ratio, or your own model with --trained and --data.")
    if sum(given is not None for given in (p, ratio, widths or None)) != 1:
        raise ExhumeError("give one of --p, --ratio and --widths.")
    p = k * widths[-1] if widths else p
    if p is None:
        if ratio is None or not 0 < ratio < 1e9:
            raise ExhumeError(f"--ratio must be a positive number, got {ratio}.")
        p = round(ratio * d * n)
    law = expect(p, d, n, activation)
    first = expect_first_layer(widths[0], d, n) if widths and activation == "relu" else None
    if as_json:
        tools.emit_json(asdict(law) | ({} if first is None else {"first_layer": asdict(first)}))
        return
    lines = (
        []
        if first is None
        else [
            ("first layer, h / n", f"{widths[0]} / {n} = {first.hidden_per_sample:.3g}: {first.outcome}"),
            ("why", first.sentence),
            ("its weights", f"{first.weights_per_coordinate:.3g} per coordinate of the samples"),
            ("last layer", f"{law.outcome}"),
        ]
    )
    tools.print_table(
        f"reconstruction is {law.outcome if first is None else best_of(law.outcome, first.outcome)}",
        [
            *lines,
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


def best_of(*outcomes: str) -> str:
    """The most likely of several outcomes: one layer that tells is enough."""
    return max(outcomes, key=("impossible", "unlikely", "possible", "likely", "expected").index)


def _first_layer(law: Any) -> list[tuple[str, str]]:
    """What the first layer tells, where it is dense with a ReLU behind it and its start is known."""
    if law.hidden_per_sample is None:
        return []
    noise = "" if law.first_layer_noise is None else f", noise {law.first_layer_noise:.1e}"
    rank = "no gap in its spectrum" if law.first_layer_rank is None else f"rank {law.first_layer_rank}"
    return [
        ("first layer, h / n", f"{law.hidden_per_sample:.3g}, {rank}{noise}: {law.first_layer_outcome}"),
    ]


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
        *_first_layer(law),
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
    outcome = law.outcome if law.first_layer_outcome is None else best_of(law.outcome, law.first_layer_outcome)
    tools.print_table(f"reconstruction is {outcome}", lines + [("note", warning) for warning in law.warnings])
