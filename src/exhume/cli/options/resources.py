"""Where and within what: options -> Resources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from exhume.cli.command_tools import options
from exhume.errors import ExhumeError

if TYPE_CHECKING:
    from exhume.attacks import Resources

machine_options = options(
    click.option("--memory", default="4GB", show_default=True, help="Memory for V, features and slopes."),
    click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto."),
    click.option("--threads", type=int, help="CPU threads (default: all)."),
)
checkpoint_option = click.option(
    "--checkpoint", type=click.Path(path_type=Path), help="Keep progress here; an existing one is resumed."
)

resource_options = options(
    machine_options,
    checkpoint_option,
    click.option("--cache", type=click.Path(path_type=Path), help="Folder for what --memory cannot hold of V (else drawn anew)."),
    click.option("--quiet", is_flag=True, help="No progress."),
)


def resources_from(given: dict[str, Any], *, shared: bool = False) -> Resources:
    """The resources that the options describe; `shared` joins the other processes that torchrun started."""
    from exhume.attacks import Resources
    from exhume.linalg.blocks import parse_bytes
    from exhume.parallel.team import ALONE, join

    _use_threads(given.get("threads"))
    device = usable_device(given.get("device", "auto"))
    return Resources(
        device=device,
        memory=parse_bytes(given.get("memory", "4GB")),
        checkpoint=given.get("checkpoint"),
        cache=given.get("cache"),
        team=join(device) if shared else ALONE,
    )


def _use_threads(threads: int | None) -> None:
    import torch

    if threads is None:
        return
    if threads < 1:
        raise ExhumeError(f"--threads must be at least 1, got {threads}.")
    torch.set_num_threads(threads)


def usable_device(device: str) -> str:
    """The device of that name, which must be able to hold float64; `auto` takes a GPU where there is one."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.ones(1, device=device, dtype=torch.float64).item()  # small sums are float64
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        raise ExhumeError(f"device {device!r} cannot be used here ({str(error).splitlines()[0]}). Try --device cpu.") from None
    return device
