"""What all commands share: lazy loading, progress, tables, JSON, and errors as one line."""

from __future__ import annotations

import functools
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.errors import ExhumeError
from exhume.storage.atomic import json_text

if TYPE_CHECKING:
    from exhume.attacks import Progress, Watch

_LOG_EVERY = 10.0  # seconds
_COMMANDS = (
    "demo",
    "audit",
    "mitigate",
    "watch",
    "trial",
    "train",
    "reconstruct",
    "score",
    "compare",
    "reproduce",
    "lab",
    "law",
    "activation",
    "data",
)


class Commands(click.Group):
    """Commands by name, each imported on use: `--help` must not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the help page."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import cli/NAME.py and take its command."""
        if name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"exhume.cli.{name}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest name for an unknown one."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from exhume.errors import unknown_name

            raise click.UsageError(str(unknown_name("command", args[0], _COMMANDS)))
        return super().resolve_command(ctx, args)


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Misuse ends in one line on stderr and exit code 2, Ctrl-C in 130."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _one_line
                function(*args, **kwargs)
        except ExhumeError as error:
            click.echo(f"exhume: {error}", err=True)
            sys.exit(2)
        except ArithmeticError as error:
            click.echo(f"exhume: the numbers overflowed ({error}). Check --step-size and the data's scale.", err=True)
            sys.exit(2)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            click.echo("exhume: out of memory. Lower --memory, --n, --d or --ratio.", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            path = kwargs.get("checkpoint") or kwargs.get("store")
            offer = " With --checkpoint FILE a run can go on." if "checkpoint" in kwargs else ""
            hint = f" The same command goes on from {path}." if path else offer
            click.echo(f"exhume: interrupted.{hint}", err=True)
            sys.exit(130)

    return wrapper


def _one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line on stderr."""
    click.echo(f"exhume: {message}", err=True)


def options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    """Several click options as one decorator."""

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else.")
store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    default=Path("exhume-lab"),
    show_default=True,
    envvar="EXHUME_LAB",
    show_envvar=True,
    help="Folder of the stored rows.",
)
seed_option = click.option("--seed", default=0, show_default=True, help="Seed of data, features and search.")


def emit_json(value: dict[str, Any]) -> None:
    """One JSON object on stdout; numbers that JSON cannot carry become null."""
    click.echo(json_text(value))


def human_seconds(seconds: float | None) -> str:
    """`95.2` -> `1 min 35 s`."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


@contextmanager
def progress(*, quiet: bool) -> Iterator[Watch]:
    """Progress on stderr: a live line on a terminal, a line every ten seconds in a log."""
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        last = time.monotonic()

        def log(now: Progress) -> None:
            nonlocal last
            if time.monotonic() - last > _LOG_EVERY:
                last = time.monotonic()
                click.echo(_progress_line(now), err=True)

        yield log
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:

        def show(now: Progress) -> None:
            live.update(Text(_progress_line(now)))

        yield show


def _progress_line(now: Progress) -> str:
    return (
        f"{now.stage:<7} step {now.step:<5} loss {now.loss:.1e}  rows {now.rows:<4} "
        f"passes {now.passes:<6} {human_seconds(now.seconds)}  left about {human_seconds(now.eta)}"
    )


def print_table(title: str, rows: list[tuple[str, str]]) -> None:
    """Two columns on stdout."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), show_header=False, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    Console().print(table)
