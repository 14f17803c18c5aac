"""`exhume reproduce`: the papers' figures, one command each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.resources import resources_from

if TYPE_CHECKING:
    from exhume.lab.grid import GridProgress, GridWatch
    from exhume.lab.store import Store


@click.command("reproduce", short_help="The papers' figures, one command each.")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--scale", type=click.Choice(["quick", "paper"]), default="quick", show_default=True, help="Minutes, or the paper's sizes."
)
@tools.store_option
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the pictures (default: STORE/figures).")
@click.option("--data-dir", type=click.Path(path_type=Path), help="CIFAR-10 and Tiny-ImageNet: a folder that holds their files.")
@click.option("--engine", default="local", show_default=True, help="local, or dask://HOST:PORT of a running scheduler.")
@click.option("--jobs", "workers", type=click.IntRange(1), help="Processes (default: by the size of the jobs).")
@click.option("--threads", type=click.IntRange(1), help="Threads of each process (default: cores shared out).")
@click.option("--memory", default="4GB", show_default=True, help="Memory for each job's V, features and slopes.")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto.")
@click.option("--only-draw", is_flag=True, help="Compute nothing, draw what is in the store.")
@click.option("--dry-run", is_flag=True, help="Say what would be computed and how long it would take.")
@click.option("--quiet", is_flag=True, help="No progress.")
@tools.json_option
@tools.guarded
def command(names: tuple[str, ...], **options: Any) -> None:
    """Compute and draw figures of the papers; what is in the store is not computed again.

    \b
    exhume reproduce list
    exhume reproduce fig3
    exhume reproduce fig1 --data-dir cifar/
    exhume reproduce all --data-dir data/
    exhume reproduce fig3 --engine dask://127.0.0.1:8786

    Ctrl-C, a crash or a power cut loses at most the jobs under way; the same command goes on.
    """
    from exhume.errors import ExhumeError, unknown_name
    from exhume.figures import FIGURES
    from exhume.figures.run import Workforce, compute, estimate, missing_data, picture, seconds_of
    from exhume.lab.engine import Place
    from exhume.lab.store import Store

    if names == ("list",):
        _list(options["as_json"])
        return
    for name in names:
        if name not in (*FIGURES, "all"):
            raise unknown_name("figure", name, [*FIGURES, "all", "list"])
    chosen = list(FIGURES.values()) if "all" in names else [FIGURES[name] for name in names]
    store, scale = Store(options["store"]), options["scale"]
    reasons = {figure.name: missing_data(figure, scale, options["data_dir"]) for figure in chosen}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    figures = [figure for figure in chosen if figure.name not in skipped]
    if not figures:
        raise ExhumeError(next(iter(skipped.values())))
    workforce = Workforce(options["engine"], options["workers"], options["threads"])
    every = [job for figure in figures for job in figure.jobs(scale)]
    if options["dry_run"] or (scale == "paper" and not options["only_draw"]):
        note = f"about {tools.human_seconds(estimate(every, store, workforce))} on this machine for what is not in {store.root}"
        click.echo(note, err=not options["dry_run"] or options["as_json"])
    if options["dry_run"]:
        if options["as_json"]:
            tools.emit_json({"figures": [figure.name for figure in figures], "seconds": estimate(every, store, workforce)})
        return
    if not options["only_draw"]:
        resources = resources_from({"memory": options["memory"], "device": options["device"]})
        place = Place(options["data_dir"] and options["data_dir"].resolve(), resources.memory, resources.device)
        with grid_progress(store, quiet=options["quiet"]) as watch:
            compute(figures, scale, store, place, workforce, watch)
    folder = options["out"] or store.root / "figures"
    drawn = []
    for figure in figures:
        try:
            drawn.append(picture(figure, scale, store, folder))
        except ExhumeError as error:
            skipped[figure.name] = str(error)
    if not drawn:
        raise ExhumeError(next(iter(skipped.values())))
    told = [vars(one) | {"figure": one.figure.name, "path": str(one.path)} for one in drawn]
    _report(told, skipped, seconds_of(every, store), as_json=options["as_json"])
    if any(one.missing for one in drawn):
        click.echo(f"exhume: some jobs failed; `exhume lab status --store {store.root}` says why.", err=True)
        sys.exit(1)


def _list(as_json: bool) -> None:
    from exhume.figures import FIGURES

    if as_json:
        described = {
            figure.name: {"title": figure.title, "claim": figure.claim, "quick": figure.departs, "data": list(figure.data)}
            for figure in FIGURES.values()
        }
        tools.emit_json(described)
        return
    rows = [(figure.name, figure.title + (f" [{', '.join(figure.data)}]" if figure.data else "")) for figure in FIGURES.values()]
    tools.print_table("figures (in brackets: data that need files)", rows)


def _report(drawn: list[dict[str, Any]], skipped: dict[str, str], total: float, *, as_json: bool) -> None:
    if as_json:
        tools.emit_json({"figures": drawn, "skipped": skipped, "job_seconds": total})
        return
    rows = [
        (
            one["figure"],
            f"{one['path']}  ({one['jobs']} jobs, {tools.human_seconds(one['seconds'])} of work"
            + (f", {one['missing']} missing)" if one["missing"] else ")"),
        )
        for one in drawn
    ]
    rows += [(name, f"skipped: {reason}") for name, reason in skipped.items()]
    rows.append(("total", f"{tools.human_seconds(total)} of work; jobs that figures share count once"))
    tools.print_table("drawn", rows)


@contextmanager
def grid_progress(store: Store, *, quiet: bool) -> Iterator[GridWatch]:
    """One screen on a terminal: done, failed, left, ETA, and the jobs under way with their loss; else a line per job."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield lambda now: click.echo(_line(now) + _ended(now), err=True)
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from exhume.lab.grid import running

    console, latest = Console(stderr=True), [None]

    def screen() -> Group:
        now: Any = latest[0]
        lines = [Text(_line(now) if now is not None else "starting")]
        for job in running(store):
            text = f"  {job['key'][:8]}  {job['stage']:<7} step {job['step']:<6} loss {job['loss']:.1e}  rows {job['rows']:<4}"
            lines.append(Text(text + f" {tools.human_seconds(job['seconds'])}", style="dim"))
        return Group(*lines)

    with Live(console=console, refresh_per_second=2, transient=True, get_renderable=screen):

        def show(now: GridProgress) -> None:
            latest[0] = now  # type: ignore[call-overload]
            if now.error is not None:
                console.print(Text(f"failed: {now.last}: {now.error}", style="red"))

        yield show


def _line(now: GridProgress) -> str:
    kept = f" ({now.kept} were in the store)" if now.kept else ""
    return (
        f"{now.kept + now.done}/{now.total} done{kept}, {now.failed} failed, {now.left} left, "
        f"{tools.human_seconds(now.seconds)}, about {tools.human_seconds(now.eta)} to go"
    )


def _ended(now: GridProgress) -> str:
    if not now.last:
        return ""
    return f"; failed: {now.last}: {now.error}" if now.error is not None else f"; {now.last}"
