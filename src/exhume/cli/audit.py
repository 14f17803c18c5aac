"""`exhume audit`: can these weights be released?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.live_session import live_session
from exhume.cli.options.attack import AttackName
from exhume.cli.options.knowledge import knowledge_from, knowledge_options
from exhume.cli.options.own_model import inputs_from, model_options, own_data_options
from exhume.cli.options.resources import resource_options, resources_from

LEAKS = 3  # exit code: more was rebuilt than --fail-above allows


@click.command("audit", short_help="Can these weights be released? Your model, a verdict, a report.")
@model_options
@own_data_options
@knowledge_options
@click.option("--attack", type=AttackName(), help="Run this attack only (default: by what is known; --explain tells).")
@click.option("--explain", is_flag=True, help="Say which attacks would be run, and why, and stop.")
@click.option(
    "--fail-above", type=float, default=0.0, show_default=True, help="Exit with 3 if a larger share of samples is rebuilt."
)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("exhume-audit"), show_default=True, help="Folder of the report."
)
@resource_options
@tools.seed_option
@tools.json_option
@tools.guarded
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
    from exhume.report import write_audit
    from exhume.storage.atomic import require_writable

    if not 0 <= options["fail_above"] <= 1:
        raise ExhumeError(f"--fail-above is a share between 0 and 1, got {options['fail_above']}.")
    knowledge = knowledge_from(options)
    subject, held_out = subject_of(inputs_from(options), knowledge)
    attack = None if options["attack"] is None else attack_named(options["attack"])
    if options["explain"]:
        _explain([(o.attack.name, o.place, o.why) for o in choose(subject.release)], as_json=options["as_json"])
        return
    require_writable(options["out"] / "index.html")
    resources = resources_from(options)
    with live_session(options["out"], subject, quiet=options["quiet"] or options["as_json"]) as session:
        audit = run_audit(
            subject,
            knowledge=knowledge,
            held_out=held_out,
            attack=attack,
            within=options["within"],
            seed=options["seed"],
            watch=session.watch,
            stage=session.stage,
            resources=resources,
        )
        page = write_audit(audit, options["out"], command=shlex.join(["exhume", *sys.argv[1:]]))
        session.headline(audit.verdict.headline)
    if options["as_json"]:
        tools.emit_json(audit.row() | {"page": str(page)})
    else:
        verdict = audit.verdict
        tools.print_table(
            verdict.headline,
            [
                ("why", verdict.detail),
                ("law", f"p / (d n) = {audit.law.ratio:.3g}, p / (r n) = {audit.law.ratio_effective:.3g}"),
                ("status", f"{audit.guess.status.value}: {audit.guess.reason}"),
                ("took", tools.human_seconds(audit.seconds)),
                *(("note", warning) for warning in audit.law.warnings),
                ("report", str(page.resolve())),
            ],
        )
    if audit.verdict.leaks(options["fail_above"]):
        sys.exit(LEAKS)


def _explain(options: list[tuple[str, int | None, str]], *, as_json: bool) -> None:
    if as_json:
        tools.emit_json({"options": [{"attack": name, "place": place, "why": why} for name, place, why in options]})
        return
    lines = [(f"{place}. {name}" if place else f"   {name}", why if place else f"not run: {why}") for name, place, why in options]
    tools.print_table("attacks, in their order; a later one is run where those before it stall", lines)
