"""`exhume train`: a victim's release, and the truth in a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.data import data_options
from exhume.cli.options.resources import checkpoint_option, machine_options, resources_from
from exhume.cli.options.trial import trial_from, victim_options


@click.command("train", short_help="Train a victim: a release, and the truth in a file of its own.")
@data_options
@victim_options
@tools.seed_option
@click.option("--release", type=click.Path(path_type=Path), default=Path("release.safetensors"), show_default=True)
@click.option("--truth", type=click.Path(path_type=Path), default=Path("truth.safetensors"), show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
@machine_options
@checkpoint_option
@tools.json_option
@tools.guarded
def command(**options: Any) -> None:
    """Train a victim; write what an attacker gets (--release) and what stays secret (--truth).

    \b
    exhume train --data digits --n 30 --ratio 5
    exhume reconstruct release.safetensors --out guess.safetensors
    exhume score guess.safetensors --release release.safetensors --truth truth.safetensors
    """
    from exhume.data import load, save_dataset
    from exhume.errors import ExhumeError
    from exhume.lab import train_victim
    from exhume.release import save_release
    from exhume.storage.atomic import require_writable
    from exhume.storage.checkpoint import until_written

    if options["release"] == options["truth"]:
        raise ExhumeError("--release and --truth must be different files.")
    for path in (options["release"], options["truth"]):
        if path.exists() and not options["overwrite"]:
            raise ExhumeError(f"{path} exists. Give another path or --overwrite.")
        require_writable(path)
    resources, trial = resources_from(options), trial_from(options)
    dataset = load(trial.data)
    with until_written():
        with tools.progress(quiet=options["as_json"]) as watch:
            trained = train_victim(trial, dataset, watch=watch, resources=resources)
        save_release(trained.release, options["release"])
        save_dataset(trained.truth, options["truth"])
    row = {
        "release": str(options["release"]),
        "truth": str(options["truth"]),
        "p": trained.release.p * trained.release.k,
        "d": trained.release.d,
        "n": trained.truth.n,
        "train_loss": trained.train_loss,
        **trained.course,
        "notes": list(trained.truth.notes),
    }
    if options["as_json"]:
        tools.emit_json(row)
        return
    lines = [
        ("release", f"{row['release']} (what an attacker gets)"),
        ("truth", f"{row['truth']} (keep it to yourself)"),
        ("p / (d n)", f"{row['p']} / ({row['d']} x {row['n']})"),
        ("train loss", f"{row['train_loss']:.1e}"),
    ]
    if trained.course:
        lines += [
            ("steps", str(row["train_steps"])),
            ("feature drift", f"{row['feature_drift']:.2e}"),
            ("first layer's change", f"{row['first_layer_change']:.2e}, spectrum {_spectrum(row['first_layer_spectrum'])}"),
        ]
    tools.print_table("trained", lines + [("note", note) for note in trained.truth.notes])


def _spectrum(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.1e}" for value in values[:6]) + " ..."
