"""`exhume demo`: pictures and patients rebuilt from weights, on one page."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.resources import resources_from


@click.command("demo", short_help="Pictures and patients rebuilt from weights, on one page.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("exhume-demo"), show_default=True, help="Folder of the page.")
@click.option("--open", "show", is_flag=True, help="Open the page in a browser.")
@click.option("--threads", type=int, help="CPU threads (default: all).")
@click.option("--quiet", is_flag=True, help="No progress.")
@tools.json_option
@tools.guarded
def command(**options: Any) -> None:
    """Train three small models on data that ships with scikit-learn, rebuild that data from their weights, show it.

    Handwritten digits come back as pictures, from an ordinary network (mini-batches, momentum, cross-entropy, float32) and from
    random features; breast-cancer patients come back as table rows. No download, under a minute.
    """
    from exhume.attacks import attack_named
    from exhume.data import DataRequest
    from exhume.lab import Trial, run_trial
    from exhume.report import Recorder, Story, write_page
    from exhume.storage.atomic import require_writable

    require_writable(options["out"] / "index.html")
    resources = resources_from({"memory": "2GB", "threads": options["threads"]})
    quiet = options["quiet"] or options["as_json"]
    ordinary = Trial(
        DataRequest("digits", n=20),
        victim="mlp",
        widths=(256, 64),
        bias=True,
        k=10,
        loss="cross-entropy",
        optimizer="momentum",
        batch=5,
        lr=0.02,
        epochs=100,
        dtype="float32",
        attack=attack_named("first-layer"),
    )
    trials = [
        ("Twenty digits from an ordinary network", ordinary),
        ("Thirty handwritten digits", Trial(DataRequest("digits", n=30), ratio=5.0)),
        ("Fifty breast-cancer patients", Trial(DataRequest("breast-cancer", n=50), ratio=10.0)),
    ]
    stories = []
    for title, trial in trials:
        if not quiet:
            click.echo(f"{title}: training, then rebuilding from the weights ...", err=True)
        recorder = Recorder()
        with tools.progress(quiet=quiet) as show:

            def watch(now: Any, record: Recorder = recorder, show: Any = show) -> None:
                record(now)
                show(now)

            result = run_trial(trial, watch=watch, resources=resources)
        stories.append(Story.of(result, title=title, recorder=recorder))
        if not quiet:
            row = result.row()
            click.echo(
                f"  {row['covered']} of {row['n_true']} rows rebuilt, error {row['rho_signed']:.0e} "
                f"(chance {row['chance_signed']:.2f}), {tools.human_seconds(row['seconds'])}",
                err=True,
            )
    page = write_page(stories, options["out"]).resolve()
    if options["as_json"]:
        tools.emit_json({"page": str(page), "trials": [story.result.row() for story in stories]})
    else:
        click.echo(f"Open {page}")
    if options["show"]:
        webbrowser.open(page.as_uri())
    if not all(story.result.guess.certified for story in stories):
        sys.exit(1)
