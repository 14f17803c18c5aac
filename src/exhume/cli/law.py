"""`exhume law`: p, d, n -> what to expect, in seconds."""

from __future__ import annotations

from dataclasses import asdict

import click

from exhume.cli import common


@click.command("law", short_help="p, d, n: what to expect, in seconds.")
@click.option("--p", type=int, help="Last-layer parameters (features).")
@click.option("--ratio", type=float, help="p / (d n), instead of --p.")
@click.option("--d", type=int, required=True, help="Input dimension.")
@click.option("--n", type=int, required=True, help="Training samples.")
@click.option("--activation", default="relu", show_default=True)
@common.json_option
@common.guarded
def command(p: int | None, ratio: float | None, d: int, n: int, activation: str, as_json: bool) -> None:
    """Say whether a model of this size can give up its training data.

    \b
    exhume law --p 8000 --d 100 --n 20
    exhume law --ratio 0.5 --d 3072 --n 100
    """
    from exhume.errors import ExhumeError
    from exhume.lab.law import expect

    if (p is None) == (ratio is None):
        raise ExhumeError("give either --p or --ratio.")
    if p is None:
        if ratio is None or not 0 < ratio < 1e9:
            raise ExhumeError(f"--ratio must be a positive number, got {ratio}.")
        p = round(ratio * d * n)
    law = expect(p, d, n, activation)
    if as_json:
        common.emit_json(asdict(law))
        return
    common.print_table(
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
                f"about {common.human_seconds(law.seconds)} here (GEMM at {law.gemm_gflops:.0f} GFLOP/s)",
            ),
        ],
    )
