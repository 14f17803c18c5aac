"""`exhume score`: a reconstruction against the truth."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from exhume.cli import command_tools as tools


@click.command("score", short_help="Score a reconstruction against the truth.")
@click.argument("guess", type=click.Path(path_type=Path))
@click.option("--release", type=click.Path(path_type=Path), default=Path("release.safetensors"), show_default=True)
@click.option("--truth", type=click.Path(path_type=Path), default=Path("truth.safetensors"), show_default=True)
@click.option("--picture", type=click.Path(path_type=Path), help="Draw truth and reconstruction (other rows: their errors) here.")
@click.option("--expect", type=float, help="Exit with 1 unless rho_signed is at most this.")
@tools.json_option
@tools.guarded
def command(**options: Any) -> None:
    """Score GUESS, a file that `exhume reconstruct` wrote, against the truth; chance stands beside every figure."""
    from exhume.data import load_dataset
    from exhume.errors import ExhumeError
    from exhume.release import load_release
    from exhume.result import load_reconstruction
    from exhume.score import evaluate

    guess = load_reconstruction(options["guess"])
    release, truth = load_release(options["release"]), load_dataset(options["truth"])
    if not guess.rows.shape[1] == truth.d == release.d:
        raise ExhumeError(
            f"the three files do not belong together: d = {guess.rows.shape[1]} (guess), {release.d} (release), {truth.d} (truth)."
        )
    score = evaluate(guess, truth, release)
    if options["picture"] is not None:
        from exhume.report import draw_score

        draw_score(truth, guess, score, options["picture"])
    if options["as_json"]:
        tools.emit_json({k: v for k, v in asdict(score).items() if v is not None})
    else:
        lines = [
            ("rows", f"{score.n_found} found, {score.n_true} true, {score.covered} within 10%"),
            ("error, signed", f"{score.rho_signed:.2e}   (chance {score.chance_signed:.2f})"),
            ("error, sign forgiven", f"{score.rho:.2e}   (chance {score.chance:.2f})"),
            ("span residual", f"{score.span_residual:.2e}"),
        ]
        if score.psnr is not None:
            lines.append(
                (
                    "PSNR, SSIM",
                    f"{score.psnr:.1f} dB, {score.ssim:.3f}   (chance {score.chance_psnr:.1f} dB, {score.chance_ssim:.3f})",
                )
            )
        tools.print_table("score", lines)
    if options["expect"] is not None and not score.rho_signed <= options["expect"]:
        sys.exit(1)
