"""`exhume watch`: a local page on which running audits appear."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from exhume.cli import command_tools as tools


@click.command("watch", short_help="A local page that shows audits while they run.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--port", type=int, default=0, help="Port (default: any free one).")
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@tools.guarded
def command(run: Path, port: int, show: bool) -> None:
    """Serve a page on 127.0.0.1 that follows RUN: the --out of an audit, or a folder that holds several.

    The address has a token in it; nobody without it can look. Ctrl-C ends the page, not the run.
    """
    from exhume.report.live_server import serve

    def announce(address: str) -> None:
        click.echo(address)
        if show:
            webbrowser.open(address)

    serve(run, announce=announce, port=port)
