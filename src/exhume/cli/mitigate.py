"""`exhume mitigate`: what would stop the attack, and what it costs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.live_session import live_session
from exhume.cli.options.knowledge import knowledge_from, knowledge_options
from exhume.cli.options.own_model import inputs_from, model_options, own_data_options
from exhume.cli.options.resources import resource_options, resources_from

if TYPE_CHECKING:
    from exhume.auditing import Rung


@click.command("mitigate", short_help="What would stop the attack, and what that costs in accuracy.")
@model_options
@own_data_options
@knowledge_options
@click.option("--bearable", type=float, default=0.0, show_default=True, help="Share of rebuilt samples that counts as stopped.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("exhume-mitigate"), show_default=True, help="Folder of the report."
)
@resource_options
@tools.seed_option
@tools.json_option
@tools.guarded
def command(**options: Any) -> None:
    """Audit a model, then change or re-train it step by step and audit each: leakage against utility.

    \b
    exhume mitigate --trained pipeline.skops --data train.csv --holdout test.csv --out report/

    Rounding, noise and pruning are applied to the weights; weight decay, a smaller head and DP-SGD (Opacus) train anew.
    """
    from exhume.auditing import run_audit, run_mitigations, subject_of
    from exhume.errors import ExhumeError
    from exhume.report import write_ladder
    from exhume.storage.atomic import require_writable

    if options["checkpoint"] is not None:
        raise ExhumeError("a ladder has no checkpoint. Leave --checkpoint out.")
    if not 0 <= options["bearable"] < 1:
        raise ExhumeError(f"--bearable is a share between 0 and 1, got {options['bearable']}.")
    require_writable(options["out"] / "index.html")
    resources = resources_from(options)
    knowledge, inputs = knowledge_from(options), inputs_from(options)
    subject, held_out = subject_of(inputs, knowledge)
    with live_session(options["out"], subject, quiet=options["quiet"] or options["as_json"]) as session:

        def finished(rung: Rung) -> None:
            session.note_stage(f"measured: {rung.step} {rung.setting}".rstrip())
            session.say(f"{f'{rung.step} {rung.setting}':<44} {_measured(rung)}  ({tools.human_seconds(rung.seconds)})")

        shared = {"seed": options["seed"], "watch": session.watch, "resources": resources}
        first = run_audit(subject, knowledge=knowledge, held_out=held_out, within=options["within"], **shared)
        ladder = run_mitigations(inputs, knowledge, first, bearable=options["bearable"], finished=finished, **shared)
        page = write_ladder(first, ladder, options["out"], command=shlex.join(["exhume", *sys.argv[1:]]))
        session.headline(first.verdict.headline)
    if options["as_json"]:
        tools.emit_json(ladder.row() | {"page": str(page)})
        return
    best = ladder.cheapest
    tools.print_table(
        "No step stopped the attack." if best is None else f"The cheapest step that stops the attack: {best.step}, {best.setting}",
        [
            *((f"{rung.step} {rung.setting}", _measured(rung)) for rung in ladder.rungs),
            *(("not run", f"{step}: {why}") for step, why in ladder.skipped),
            ("report", str(page.resolve())),
        ],
    )


def _measured(rung: Rung) -> str:
    error = rung.held_out_error if rung.held_out_error is not None else rung.train_error
    return f"{rung.rebuilt:>4} of {rung.n} rebuilt, error {error:.3f}"
