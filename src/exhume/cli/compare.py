"""`exhume compare`: several attacks on one victim, one table and one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.attack import descent_options
from exhume.cli.options.data import data_options
from exhume.cli.options.resources import resource_options, resources_from
from exhume.cli.options.trial import trial_from, victim_options


@click.command("compare", short_help="Several attacks on one victim: one table, one picture.")
@data_options
@victim_options
@click.option("--attacks", help="Names with commas between them (default: all that can take the victim).")
@descent_options
@resource_options
@tools.seed_option
@click.option("--out", type=click.Path(path_type=Path), help="Also write a page with the table and the picture here.")
@click.option("--list", "only_list", is_flag=True, help="Name all attacks and what each has to know.")
@tools.json_option
@tools.guarded
def command(**options: Any) -> None:
    """Train one victim and run several attacks on its weights.

    \b
    exhume compare --list
    exhume compare --victim two-layer --data digits --n 10 --ratio 4 --know-n --step-size auto --max-steps 5000 --out page/
    """
    from exhume.attacks import ATTACKS
    from exhume.errors import ExhumeError
    from exhume.lab import TrialResult, compare
    from exhume.storage.atomic import require_writable

    if only_list(options):
        return
    if options["checkpoint"] is not None:
        raise ExhumeError(
            "a comparison has no checkpoint. Leave --checkpoint out, or run the attacks one by one with `exhume trial`."
        )
    if options["out"] is not None:
        require_writable(options["out"] / "index.html")
    names = options["attacks"].split(",") if options["attacks"] else list(ATTACKS)
    attacks = [_attack(name.strip(), options) for name in names]
    resources = resources_from(options)

    def announce(result: TrialResult) -> None:
        if not options["quiet"]:
            took = tools.human_seconds(result.guess.seconds)
            click.echo(f"{result.guess.attack:<15} error {result.score.rho_signed:.2g} in {took}", err=True)

    with tools.progress(quiet=options["quiet"]) as watch:
        done = compare(trial_from(options), attacks, watch=watch, resources=resources, finished=announce)
    if not done.results:
        raise ExhumeError(f"no attack can take this victim: {done.refused[0][1]}")
    rows = [result.row() | {"needs": result.trial.attack.needs} for result in done.results]
    page = None
    if options["out"] is not None:
        from exhume.report import write_comparison

        page = write_comparison(done, options["out"])
    if options["as_json"]:
        tools.emit_json({"attacks": rows, "refused": dict(done.refused), "page": None if page is None else str(page)})
        return
    _print(rows, done.refused, page)


def only_list(options: dict[str, Any]) -> bool:
    """Print the attacks where that is all that was asked for."""
    from exhume.attacks import ATTACKS

    if not options["only_list"]:
        return False
    if options["as_json"]:
        tools.emit_json({name: {"about": attack.about, "needs": attack.needs} for name, attack in ATTACKS.items()})
    else:
        for name, attack in ATTACKS.items():
            click.echo(f"{name:<15} {attack.about}\n{'':<15} needs: {attack.needs}")
    return True


def _attack(name: str, options: dict[str, Any]) -> Any:
    """The attack of that name; settings of a descent go to those that descend."""
    from exhume.attacks import ATTACKS, attack_named, settings_of

    takes = settings_of(name) if name in ATTACKS else set()
    return attack_named(name, **{key: options[key] for key in ("max_steps", "step_size") if key in takes})


def _print(rows: list[dict[str, Any]], refused: tuple[tuple[str, str], ...], page: Path | None) -> None:
    from rich.console import Console
    from rich.table import Table

    first = rows[0]
    title = f"{first['victim']}, {first['n_true']} rows of {first['data']}, p / (d n) = {first['ratio']:.3g}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("attack", no_wrap=True)
    pictures = "ssim" in first
    for name in ("rho", "signed", "directions", *(["SSIM"] if pictures else []), "within 10%", "seconds", "passes"):
        table.add_column(name, justify="right")
    for row in rows:
        errors = [f"{row[key]:.2g}" for key in ("rho", "rho_signed", "rho_direction")]
        quality = [f"{row['ssim']:.2f}"] if pictures else []
        counts = [f"{row['covered']} of {row['n_true']}", f"{row['seconds']:.1f}", str(row["passes"])]
        table.add_row(row["attack"], *errors, *quality, *counts)
    chance = [f"{first['chance']:.2g}", f"{first['chance_signed']:.2g}", ""] + ([f"{first['chance_ssim']:.2f}"] if pictures else [])
    table.add_row("chance", *chance, style="dim")
    Console().print(table)
    for row in rows:
        click.echo(f"{row['attack']} had to know: {row['needs']}")
    for name, reason in refused:
        click.echo(f"{name} was not run: {reason}")
    if page is not None:
        click.echo(f"page: {page}")
