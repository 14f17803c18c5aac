"""`exhume audit`: can these weights be released?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from exhume.cli import brought, common

LEAKS = 3  # exit code: more was rebuilt than --fail-above allows


@click.command("audit", short_help="Can these weights be released? Your model, a verdict, a report.")
@brought.model_options
@brought.data_options
@brought.knowledge_options
@click.option("--attack", help="Run this attack only (default: by what is known; --explain tells).")
@click.option("--explain", is_flag=True, help="Say which attacks would be run, and why, and stop.")
@click.option(
    "--fail-above", type=float, default=0.0, show_default=True, help="Exit with 3 if a larger share of samples is rebuilt."
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("exhume-audit"), show_default=True, help="Folder of the report."
)
@common.resource_options
@common.seed_option
@common.json_option
@common.guarded
def command(**options: Any) -> None:
    """Attack your own model with its own training data at hand, and say what an attacker could rebuild.

    \b
    exhume audit --trained pipeline.skops --data train.csv --holdout test.csv --out report/
    exhume audit --model my_pkg.nets:make_net --init init.safetensors --trained trained.safetensors --data train.npz
    exhume audit ... --fail-above 0.0       in CI: exit code 3 if any sample can be rebuilt

    Exit codes: 0 nothing above --fail-above was rebuilt, 3 it was, 2 bad input, 130 interrupted.
    """
    from exhume.attacks import attack_named
    from exhume.auditing import choose, run_audit, subject_of
    from exhume.errors import ExhumeError
    from exhume.files import require_writable
    from exhume.report import LiveRun, write_audit

    if not 0 <= options["fail_above"] <= 1:
        raise ExhumeError(f"--fail-above is a share between 0 and 1, got {options['fail_above']}.")
    knowledge = brought.knowledge_from(options)
    subject, held_out = subject_of(brought.brought_from(options), knowledge)
    attack = None if options["attack"] is None else attack_named(options["attack"])
    if options["explain"]:
        _explain([(o.attack.name, o.place, o.why) for o in choose(subject.release)], as_json=options["as_json"])
        return
    require_writable(options["out"] / "index.html")
    resources = common.resources_from(
        options["memory"], options["device"], options["threads"], options["checkpoint"], cache=options["cache"]
    )
    live = LiveRun(options["out"], subject)
    quiet = options["quiet"] or options["as_json"]

    def stage(text: str) -> None:
        live.stage(text)
        if not quiet:
            click.echo(text, err=True)

    try:
        with common.progress(quiet=quiet) as show:

            def watch(now: Any) -> None:
                live(now)
                show(now)

            audit = run_audit(
                subject,
                knowledge=knowledge,
                held_out=held_out,
                attack=attack,
                within=options["within"],
                seed=options["seed"],
                watch=watch,
                stage=stage,
                resources=resources,
            )
        page = write_audit(audit, options["out"], command=shlex.join(["exhume", *sys.argv[1:]]))
    except BaseException as error:
        live.ended("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    live.ended("done", audit.verdict.headline)
    if options["as_json"]:
        common.emit_json(audit.row() | {"page": str(page)})
    else:
        verdict = audit.verdict
        common.print_table(
            verdict.headline,
            [
                ("why", verdict.detail),
                ("law", f"p / (d n) = {audit.law.ratio:.3g}, p / (r n) = {audit.law.ratio_effective:.3g}"),
                ("status", f"{audit.guess.status.value}: {audit.guess.reason}"),
                ("took", common.human_seconds(audit.seconds)),
                *(("note", warning) for warning in audit.law.warnings),
                ("report", str(page.resolve())),
            ],
        )
    if audit.verdict.leaks(options["fail_above"]):
        sys.exit(LEAKS)


def _explain(options: list[tuple[str, int | None, str]], *, as_json: bool) -> None:
    if as_json:
        common.emit_json({"options": [{"attack": name, "place": place, "why": why} for name, place, why in options]})
        return
    lines = [(f"{place}. {name}" if place else f"   {name}", why if place else f"not run: {why}") for name, place, why in options]
    common.print_table("attacks, in their order; a later one is run where those before it stall", lines)
