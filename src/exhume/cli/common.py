"""What all commands share: lazy loading, options, progress, JSON, and errors as one line."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.errors import ExhumeError
from exhume.files import json_text

if TYPE_CHECKING:
    from exhume.attacks import Progress, Resources, Watch

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


def options(*decorators: Callable[..., Any]) -> Callable[..., Any]:
    """Several click options as one decorator."""

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


class StepSize(click.ParamType):
    """A positive number, or `auto`."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """The text as a number or `auto`."""
        if value == "auto":
            return "auto"
        try:
            size = float(value)
        except ValueError:
            size = math.nan
        if not 0 < size < math.inf:
            self.fail(f"a step size is a positive number or auto, got {value!r}.", param, ctx)
        return size


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

data_options = options(
    click.option("--data", "source", default="sphere", show_default=True, help="Data source; `exhume data` lists them."),
    click.option("--n", type=int, help="Number of training samples."),
    click.option("--d", type=int, help="Input dimension (sphere only)."),
    click.option("--rank", type=int, help="Dimension of the subspace that holds the rows (sphere only)."),
    click.option("--size", type=int, help="Average photographs down to this many pixels per side."),
    click.option("--data-dir", type=click.Path(path_type=Path), help="Archive, folder or npz of the data source."),
    click.option("--data-file", type=click.Path(path_type=Path), help="Your rows: npz with X and y, or CSV, label last."),
)

victim_options = options(
    click.option("--victim", default="rf", show_default=True, help="What is trained: rf, two-layer, resnet or vit."),
    click.option("--loss", default="square", show_default=True, help="Training loss: square, logistic or cross-entropy."),
    click.option("--k", type=int, default=1, show_default=True, help="Outputs of a network: classes for k > 1."),
    click.option("--ratio", type=float, default=4.0, show_default=True, help="p / (d n), p the last layer's parameters."),
    click.option("--p", type=int, help="Parameters of the last layer, instead of --ratio."),
    click.option("--activation", default="relu", show_default=True, help="Activation; see `exhume activation`."),
    click.option("--ridge", type=float, default=0.0, show_default=True, help="Ridge penalty lambda (Eq. 169)."),
    click.option("--weight-decay", type=float, default=0.0, show_default=True, help="Networks: decay per unit of step size."),
    click.option("--prune", type=float, default=0.0, show_default=True, help="Share of last-layer features pruned (rf: by OBS)."),
    click.option("--init-scale", type=float, default=1.0, show_default=True, help="Networks: factor on the first layer's start."),
    click.option("--train-to", type=float, help="Networks: mean loss at which training stops (default: by loss)."),
    click.option("--paper-schedule", is_flag=True, help="Networks: Appendix D's step size and 10^6 steps (slow)."),
    click.option("--dtype", type=click.Choice(["auto", "float32", "float64"]), default="auto", show_default=True),
    click.option(
        "--know-init",
        type=click.Choice(["all", "last", "none"]),
        default="all",
        show_default=True,
        help="Networks: which weights before training the attacker knows.",
    ),
    click.option("--know-n", is_flag=True, help="Tell the attacker the number of samples."),
    click.option("--hide-labels", is_flag=True, help="Do not tell the attacker that labels are -1/+1."),
    click.option("--hide-norm", is_flag=True, help="Do not tell the attacker the common norm of the inputs."),
    click.option("--allow-underfit", is_flag=True, help="Train even with p < n, where labels cannot be fitted."),
)

attack_options = options(
    click.option("--attack", default="gauss-newton", show_default=True, help="The attack; `exhume compare --list` names all."),
    click.option("--rows", type=int, help="Number of rows to look for, as if somebody claimed to know n."),
    click.option("--starts", type=int, help="gauss-newton: how often to start anew (default 4)."),
    click.option("--max-steps", type=int, help="projection-gd, kkt, ntk: most steps (default: as published)."),
    click.option("--step-size", type=StepSize(), help="projection-gd, kkt, ntk: a number or auto (default: as published)."),
)

resource_options = options(
    click.option("--memory", default="4GB", show_default=True, help="Memory for V, features and slopes."),
    click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto."),
    click.option("--threads", type=int, help="CPU threads (default: all)."),
    click.option("--checkpoint", type=click.Path(path_type=Path), help="Keep progress here; an existing one is resumed."),
    click.option("--cache", type=click.Path(path_type=Path), help="Folder for what --memory cannot hold of V (else drawn anew)."),
    click.option("--quiet", is_flag=True, help="No progress."),
)


def resources_from(
    memory: str, device: str, threads: int | None, checkpoint: Path | None, *, cache: Path | None = None, shared: bool = False
) -> Resources:
    """The resources that the options describe; `shared` joins the other processes that torchrun started."""
    import torch

    from exhume.attacks import Resources
    from exhume.linalg.blocks import parse_bytes
    from exhume.linalg.team import ALONE, join

    if threads is not None:
        if threads < 1:
            raise ExhumeError(f"--threads must be at least 1, got {threads}.")
        torch.set_num_threads(threads)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.ones(1, device=device, dtype=torch.float64).item()  # small sums are float64
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise ExhumeError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]}). Try --device cpu.") from None
    return Resources(
        device=device, memory=parse_bytes(memory), checkpoint=checkpoint, cache=cache, team=join(device) if shared else ALONE
    )


def attack_from(name: str, rows: int | None, starts: int | None, max_steps: int | None, step_size: float | str | None) -> Any:
    """The attack that the options describe; a setting of another attack is an error."""
    from exhume.attacks import ATTACKS, attack_named

    given = {"rows": rows, "starts": starts, "max_steps": max_steps, "step_size": step_size}
    try:
        return attack_named(name, **given)
    except TypeError:
        takes = {f.name for f in dataclasses.fields(ATTACKS[name])}
        wrong = [f"--{k.replace('_', '-')}" for k, v in given.items() if v is not None and k not in takes]
        raise ExhumeError(f"{name} does not take {' or '.join(wrong)}. Leave it out.") from None


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
