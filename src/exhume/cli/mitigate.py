"""`exhume mitigate`: what would stop the attack, and what it costs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from exhume.cli import brought, common


@click.command("mitigate", short_help="What would stop the attack, and what that costs in accuracy.")
@brought.model_options
@brought.data_options
@brought.knowledge_options
@click.option("--bearable", type=float, default=0.0, show_default=True, help="Share of rebuilt samples that counts as stopped.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("exhume-mitigate"), show_default=True, help="Folder of the report."
)
@common.resource_options
@common.seed_option
@common.json_option
@common.guarded
def command(**options: Any) -> None:
    """Audit a model, then change or re-train it step by step and audit each: leakage against utility.

    \b
    exhume mitigate --trained pipeline.skops --data train.csv --holdout test.csv --out report/

    Rounding, noise and pruning are applied to the weights; weight decay, a smaller head and DP-SGD (Opacus) train anew.
    """
    from exhume.auditing import climb, run_audit, subject_of
    from exhume.errors import ExhumeError
    from exhume.files import require_writable
    from exhume.report import LiveRun, write_ladder

    if options["checkpoint"] is not None:
        raise ExhumeError("a ladder has no checkpoint. Leave --checkpoint out.")
    if not 0 <= options["bearable"] < 1:
        raise ExhumeError(f"--bearable is a share between 0 and 1, got {options['bearable']}.")
    require_writable(options["out"] / "index.html")
    resources = common.resources_from(options["memory"], options["device"], options["threads"], None, cache=options["cache"])
    knowledge, given = brought.knowledge_from(options), brought.brought_from(options)
    subject, held_out = subject_of(given, knowledge)
    quiet = options["quiet"] or options["as_json"]

    live = LiveRun(options["out"], subject)

    def finished(rung: Any) -> None:
        live.stage(f"measured: {rung.step} {rung.setting}".rstrip())
        if not quiet:
            error = rung.held_out_error if rung.held_out_error is not None else rung.train_error
            name = f"{rung.step} {rung.setting}"
            took = common.human_seconds(rung.seconds)
            click.echo(f"{name:<44} {rung.rebuilt:>4} of {rung.n} rebuilt, error {error:.3f}  ({took})", err=True)

    try:
        with common.progress(quiet=quiet) as show:

            def watch(now: Any) -> None:
                live(now)
                show(now)

            shared = {"seed": options["seed"], "watch": watch, "resources": resources}
            first = run_audit(subject, knowledge=knowledge, held_out=held_out, within=options["within"], **shared)
            ladder = climb(given, knowledge, first, bearable=options["bearable"], finished=finished, **shared)
        page = write_ladder(first, ladder, options["out"], command=shlex.join(["exhume", *sys.argv[1:]]))
    except BaseException as error:
        live.ended("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    live.ended("done", first.verdict.headline)
    if options["as_json"]:
        common.emit_json(ladder.row() | {"page": str(page)})
        return
    best = ladder.cheapest
    common.print_table(
        "No step stopped the attack." if best is None else f"The cheapest step that stops the attack: {best.step}, {best.setting}",
        [
            *(
                (
                    f"{r.step} {r.setting}",
                    f"{r.rebuilt} of {r.n}, error {r.held_out_error if r.held_out_error is not None else r.train_error:.3f}",
                )
                for r in ladder.rungs
            ),
            *(("not run", f"{step}: {why}") for step, why in ladder.skipped),
            ("report", str(page.resolve())),
        ],
    )
