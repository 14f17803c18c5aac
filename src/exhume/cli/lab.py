"""`exhume lab`: what is in the store."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools


@click.group("lab", short_help="The stored rows: status, rows, export, clean.")
def command() -> None:
    """Look at, export or clean the rows that `exhume reproduce` has stored."""


@command.command("status")
@tools.store_option
@tools.json_option
@tools.guarded
def status(store: Path, as_json: bool) -> None:
    """Finished, running and failed jobs, and the figures they make up."""
    from exhume.figures import FIGURES, SCALES
    from exhume.lab.grid import running
    from exhume.lab.job import key_of

    kept = _existing(store)
    finished = set(kept.keys())
    figures = {}
    for figure in FIGURES.values():
        for scale in SCALES:
            keys = {key_of(job) for job in figure.jobs(scale)}
            if keys & finished:
                figures[f"{figure.name} {scale}"] = f"{len(keys & finished)} of {len(keys)} jobs"
    failures = [{"key": one["key"], "settings": one["settings"], "error": one["error"]} for one in kept.failures()]
    active = running(kept)
    if as_json:
        tools.emit_json({"finished": len(finished), "running": active, "failed": failures, "figures": figures})
        return
    rows = [("finished", str(len(finished))), ("running", str(len(active))), ("failed", str(len(failures))), *figures.items()]
    rows += [(f"failed {one['key'][:8]}", one["error"]) for one in failures]
    tools.print_table(str(store), rows)


@command.command("rows")
@tools.store_option
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Only rows whose field has this value; may be repeated.")
@click.option("--limit", type=int, default=30, show_default=True, help="Most rows to print; 0 prints all.")
@tools.json_option
@tools.guarded
def rows(store: Path, where: tuple[str, ...], limit: int, as_json: bool) -> None:
    """The stored rows, newest first."""
    found = sorted(_rows(store, where), key=lambda row: row["began"], reverse=True)
    if as_json:
        tools.emit_json({"rows": found})
        return
    shown = found[: limit or None]
    click.echo(f"{len(shown)} of {len(found)} rows")
    for row in shown:
        click.echo(f"{row['key'][:8]}  {_words(row)}")


@command.command("export")
@tools.store_option
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Only rows whose field has this value; may be repeated.")
@tools.guarded
def export(store: Path, path: Path, where: tuple[str, ...]) -> None:
    """Write the rows with their provenance as .csv or .parquet."""
    from exhume.errors import ExhumeError
    from exhume.storage.atomic import write_atomically, write_text

    if path.suffix not in (".csv", ".parquet"):
        raise ExhumeError(f"{path}: expected a name that ends in .csv or .parquet, got {path.suffix or 'no suffix'}.")
    found = _rows(store, where)
    names = sorted({name for row in found for name in row})
    if path.suffix == ".csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        writer.writerows(found)
        write_text(path, text.getvalue())
    else:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise ExhumeError("Parquet needs pyarrow. Install it with: pip install 'exhume[parquet]', or export to .csv.") from None
        table = pyarrow.table({name: [_flat(row.get(name)) for row in found] for name in names})
        write_atomically(path, lambda temporary: pyarrow.parquet.write_table(table, temporary))
    click.echo(f"{len(found)} rows: {path}")


@command.command("clean")
@tools.store_option
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Also delete finished rows whose field has this value.")
@click.option("--yes", is_flag=True, help="Delete finished rows without asking.")
@tools.guarded
def clean(store: Path, where: tuple[str, ...], yes: bool) -> None:
    """Delete what killed runs left behind and the list of failures; finished rows only where --where names them."""
    from exhume.errors import ExhumeError

    kept = _existing(store)
    doomed = [row["key"] for row in _rows(store, where)] if where else []
    if doomed and not yes:
        raise ExhumeError(f"{len(doomed)} finished rows would be deleted. Add --yes to do it.")
    left = kept.sweep()
    with kept.locked():
        for key in doomed:
            kept.remove(key)
    click.echo(f"deleted {left} leftovers and {len(doomed)} rows")


def _existing(path: Path) -> Any:
    from exhume.errors import ExhumeError
    from exhume.lab.store import Store

    if not path.is_dir():
        raise ExhumeError(f"there is no store at {path}. Run `exhume reproduce` first, or give its folder with --store.")
    return Store(path)


def _rows(path: Path, where: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows as flat dictionaries, provenance included, filtered."""
    from exhume.errors import ExhumeError

    flat = [
        record["provenance"] | record["row"] | {"key": record["key"], "kind": record["kind"]}
        for record in _existing(path).records()
    ]
    for condition in where:
        field, found, value = condition.partition("=")
        if not found:
            raise ExhumeError(f"--where takes FIELD=VALUE, got {condition!r}.")
        known = {name for row in flat for name in row}
        if flat and field not in known:
            from exhume.errors import unknown_name

            raise unknown_name("field", field, sorted(known))
        flat = [row for row in flat if str(row.get(field)) == value]
    return flat


def _words(row: dict[str, Any]) -> str:
    """A row on one line."""
    who = f"{row.get('attack', row['kind']):14} {row.get('victim', ''):9} {row.get('data', ''):24}"
    size = f"d {row['d']:<6} n {row['n_true']:<4} p/(dn) {row['ratio']:<8.3g} seed {row['seed']:<3}"
    end = f"rho {row['rho']:.2e}  {row['status']}" if "rho" in row else f"{row['outside']} outside the bulk"
    return f"{who} {size} {end}"


def _flat(value: Any) -> Any:
    """Lists as text: a column of a table holds one kind of value."""
    return "; ".join(map(str, value)) if isinstance(value, list | tuple) else value
