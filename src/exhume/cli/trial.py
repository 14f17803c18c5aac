"""`exhume trial`: train, reconstruct and score."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools
from exhume.cli.options.attack import attack_options
from exhume.cli.options.data import data_options
from exhume.cli.options.resources import resource_options, resources_from
from exhume.cli.options.trial import trial_from, victim_options


@click.command("trial", short_help="Train, attack and score in one go.")
@data_options
@victim_options
@attack_options
@resource_options
@tools.seed_option
@click.option("--expect", type=float, help="Exit with 1 unless rho_signed is at most this.")
@click.option("--out", type=click.Path(path_type=Path), help="Also write a page with truth beside reconstruction here.")
@tools.json_option
@tools.guarded
def command(**options: Any) -> None:
    """Train a victim, attack its weights, score the answer.

    \b
    exhume trial --data sphere --d 100 --n 20 --ratio 4
    exhume trial --data breast-cancer --n 50 --ratio 10 --out page/
    exhume trial --data cifar10 --data-dir cifar-10-python.tar.gz --n 10
    """
    from exhume.lab import run_trial
    from exhume.storage.atomic import require_writable
    from exhume.storage.checkpoint import until_written

    if options["out"] is not None:
        require_writable(options["out"] / "index.html")
    resources, trial = resources_from(options), trial_from(options)
    with until_written():
        with tools.progress(quiet=options["quiet"]) as watch:
            result = run_trial(trial, watch=watch, resources=resources)
        row = result.row()
        if options["out"] is not None:
            from exhume.report import Story, write_page

            row["page"] = str(write_page([Story.of(result)], options["out"]))
    if options["as_json"]:
        tools.emit_json(row)
    else:
        _print(row)
    if options["expect"] is not None and not row["rho_signed"] <= options["expect"]:
        if not options["as_json"]:
            click.echo(f"exhume: rho_signed {row['rho_signed']:.3g} is above the expected {options['expect']:g}.", err=True)
        sys.exit(1)


def _print(row: dict[str, Any]) -> None:
    lines = [
        ("status", f"{row['status']}: {row['reason']}"),
        ("rows", f"{row['n_found']} found, {row['n_true']} true, {row['covered']} within 10%"),
        ("error, signed", f"{row['rho_signed']:.2e}   (chance {row['chance_signed']:.2f})"),
        ("error, sign forgiven", f"{row['rho']:.2e}   (chance {row['chance']:.2f})"),
        ("error of directions", f"{row['rho_direction']:.2e}"),
        ("span residual", f"{row['span_residual']:.2e}"),
        ("loss", f"{row['loss']:.1e}"),
        ("scale", row["scale"]),
        ("p / (d n)", f"{row['p']} / ({row['d']} x {row['n_true']}) = {row['ratio']:.3g}"),
        ("cost", f"{tools.human_seconds(row['seconds'])}, {row['passes']} passes, peak {row['peak_rss_mb']:.0f} MB"),
    ]
    if "psnr" in row:
        lines.insert(
            5,
            (
                "PSNR, SSIM",
                f"{row['psnr']:.1f} dB, {row['ssim']:.3f}   (chance {row['chance_psnr']:.1f} dB, {row['chance_ssim']:.3f})",
            ),
        )
    lines += [("note", note) for note in row["notes"]]
    if "page" in row:
        lines.append(("page", row["page"]))
    tools.print_table(f"{row['attack']} on {row['data']}", lines)
