"""Options of the command line as the values that they are parsed to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.testing import CliRunner


def parsed(options: Callable[..., Any], *arguments: str) -> dict[str, Any]:
    """What a command with these options is called with."""
    seen: dict[str, Any] = {}

    @click.command()
    @options
    def command(**given: Any) -> None:
        seen.update(given)

    result = CliRunner().invoke(command, list(arguments))
    if result.exit_code:
        raise click.UsageError(result.output)
    return seen
