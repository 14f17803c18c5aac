"""`exhume reconstruct`: from a release alone to the rows it holds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.attack import attack_from, attack_options
from exhume.cli.options.resources import resource_options, resources_from


@click.command("reconstruct", short_help="Rebuild training rows from a release alone.")
@click.argument("release", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("guess.safetensors"), show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@attack_options
@resource_options
@tools.seed_option
@click.option("--expect", is_flag=True, help="Exit with 1 unless the result is certified.")
@tools.json_option
@tools.guarded
def command(**options: Any) -> None:
    """Rebuild training rows from RELEASE, a file that `exhume train` wrote; no truth is read.

    \b
    exhume reconstruct release.safetensors --checkpoint run.ckpt
    torchrun --nproc-per-node 2 -m exhume reconstruct release.safetensors     features shared by processes
    """
    from exhume.attacks import ATTACKS
    from exhume.errors import ExhumeError
    from exhume.linalg.blocks import peak_rss_mb
    from exhume.release import load_release
    from exhume.result import save_reconstruction
    from exhume.storage.atomic import require_writable
    from exhume.storage.checkpoint import until_written

    if options["out"].resolve() == options["release"].resolve():
        raise ExhumeError("--out is the release itself, which would be lost. Give another --out.")
    if options["out"].exists() and not options["overwrite"]:
        raise ExhumeError(f"{options['out']} exists. Give another --out or --overwrite.")
    require_writable(options["out"])
    release = load_release(options["release"])
    resources = resources_from(options, shared=True)
    attack = attack_from(options, first_layer=ATTACKS["first-layer"].proposals(release)[0].rank is not None)
    first = resources.team.rank == 0
    if resources.team.size > 1 and not attack.shares_features(release):
        raise ExhumeError("several processes share random features under gauss-newton only. Start this attack without torchrun.")
    with until_written():
        with tools.progress(quiet=options["quiet"] or not first) as watch:
            guess = attack.run(release, seed=options["seed"], watch=watch, resources=resources)
        resources.team.leave()
        if not first:
            return
        save_reconstruction(guess, options["out"])
    row = {"out": str(options["out"])} | guess.row() | {"peak_rss_mb": peak_rss_mb()}
    if options["as_json"]:
        tools.emit_json(row)
    else:
        worst = f"{row['row_error_max']:.1e}" if row["row_error_max"] is not None else "-"
        lines = [
            ("status", f"{row['status']}: {row['reason']}"),
            ("rows", f"{row['n_found']}" + (f", standard error of each at most {worst} of its norm" if guess.certified else "")),
            ("signs", "resolved" if guess.signs_resolved else "not resolved"),
            ("scale", guess.scale),
            ("cost", f"{tools.human_seconds(guess.seconds)}, {guess.passes} passes"),
            ("written", row["out"]),
        ]
        tools.print_table(guess.attack, lines + [("note", note) for note in guess.notes])
    if options["expect"] and not guess.certified:
        sys.exit(1)
