"""What the engine reaches, case by case: each line is a set of trials over seeds, run one after another.

    python benchmarks/bars.py                 all cases (about an hour on 2 cores)
    python benchmarks/bars.py sphere-4 gelu   some of them
    python benchmarks/bars.py --seeds 3       fewer seeds

CIFAR-10 needs --data-dir (an original archive, a folder of its files, or an npz).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path

SPHERE = ["--data", "sphere", "--d", "100", "--n", "20"]
MLP = ["--victim", "mlp", "--attack", "first-layer"]
REPLAY = ["--victim", "mlp", "--attack", "replay", "--know-recipe", "--widths", "60", "--data", "sphere", "--d", "30", "--n", "8"]
# Ordinary training: float32, cross-entropy, biases, batches of 5, momentum.
ORDINARY = [*MLP, "--bias", "--loss", "cross-entropy", "--optimizer", "momentum", "--batch", "5", "--dtype", "float32"]
SLOW_STEPS = ["--lr", "0.005", "--epochs", "60"]
LONG_STEPS = ["--lr", "0.05", "--epochs", "200"]
PHOTOS = ["--data", "cifar10", "--k", "10"]
CASES: dict[str, tuple[list[str], str, float]] = {  # options, figure that is judged, its bar
    "sphere-4": ([*SPHERE, "--ratio", "4", "--dtype", "float64"], "rho_signed", 1e-6),
    "sphere-3": ([*SPHERE, "--ratio", "3", "--dtype", "float64"], "rho_signed", 1e-6),
    "sphere-2": ([*SPHERE, "--ratio", "2", "--dtype", "float64"], "rho_signed", 1e-6),
    "sphere-n100": (["--data", "sphere", "--d", "100", "--n", "100", "--ratio", "5", "--dtype", "float32"], "rho_signed", 1e-2),
    "digits": (["--data", "digits", "--n", "30", "--ratio", "5"], "worst_row", 1e-4),
    "breast-cancer": (["--data", "breast-cancer", "--n", "50", "--ratio", "10"], "worst_row", 1e-4),
    "tanh": ([*SPHERE, "--ratio", "10", "--activation", "tanh"], "rho", 1e-2),
    "erf": ([*SPHERE, "--ratio", "10", "--activation", "erf"], "rho", 1e-2),
    "relu+tanh": ([*SPHERE, "--ratio", "10", "--activation", "relu+tanh"], "rho_signed", 1e-2),
    "cosine": ([*SPHERE, "--ratio", "10", "--activation", "cosine"], "rho_signed", 1e-2),
    "gelu": ([*SPHERE, "--ratio", "3", "--activation", "gelu"], "rho_signed", 1e-2),
    "ridge-0.001": ([*SPHERE, "--ratio", "4", "--ridge", "0.001"], "rho_signed", 1e-6),
    "ridge-0.1": ([*SPHERE, "--ratio", "4", "--ridge", "0.1"], "rho_signed", 1e-6),
    "ridge-10": ([*SPHERE, "--ratio", "4", "--ridge", "10"], "rho_signed", 1e-6),
    "ratio-1": ([*SPHERE, "--ratio", "1"], "rho_signed", float("inf")),
    "ratio-0.5": ([*SPHERE, "--ratio", "0.5"], "rho_signed", float("inf")),
    **{f"mlp-{h}": ([*MLP, "--widths", str(h), *SPHERE, "--dtype", "float64"], "rho_signed", 1e-6) for h in (200, 120, 80, 60)},
    "mlp-digits": ([*ORDINARY, *LONG_STEPS, "--widths", "256", "--data", "digits", "--n", "15", "--k", "10"], "worst_row", 1e-3),
    "mlp-digits-decay-1e-4": (
        [*ORDINARY, *LONG_STEPS, "--weight-decay", "1e-4", "--widths", "256", "--data", "digits", "--n", "15", "--k", "10"],
        "worst_row",
        1e-3,
    ),
    "mlp-digits-decay-1e-3": (
        [*ORDINARY, *LONG_STEPS, "--weight-decay", "1e-3", "--widths", "256", "--data", "digits", "--n", "15", "--k", "10"],
        "worst_row",
        1e-3,
    ),
    **{f"replay-{act}": ([*REPLAY, "--activation", act, "--optimizer", "gd"], "rho", 1e-8) for act in ("tanh", "gelu")},
    "mlp-breast-cancer": (
        [*ORDINARY, "--lr", "0.05", "--epochs", "300", "--widths", "256,64", "--data", "breast-cancer", "--n", "20", "--k", "2"],
        "worst_row",
        1e-3,
    ),
    "mlp-cifar10": ([*MLP, "--widths", "200", "--data", "cifar10", "--n", "10"], "worst_row", 1e-6),
    "mlp-cifar10-50": ([*MLP, "--widths", "500", *PHOTOS, "--n", "50"], "worst_row", 1e-6),
    "mlp-cifar10-100": ([*MLP, "--widths", "2000", *PHOTOS, "--n", "100"], "worst_row", 1e-6),
    "mlp-cifar10-100-narrow": ([*MLP, "--widths", "1000", *PHOTOS, "--n", "100"], "worst_row", 1e-6),
    "ordinary-20": ([*ORDINARY, *SLOW_STEPS, "--widths", "512,256", *PHOTOS, "--n", "20"], "worst_row", 1e-3),
    "ordinary-50": ([*ORDINARY, *SLOW_STEPS, "--widths", "512,256", *PHOTOS, "--n", "50"], "worst_row", 1e-3),
    "ordinary-100": ([*ORDINARY, *SLOW_STEPS, "--widths", "2048,256", *PHOTOS, "--n", "100"], "worst_row", 1e-3),
    "cifar10": (["--data", "cifar10", "--n", "10", "--ratio", "4", "--dtype", "float32"], "rho_signed", 1e-3),
}


def trial(options: list[str], seed: int) -> dict:
    command = [sys.executable, "-m", "exhume", "trial", *options, "--seed", str(seed), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, help="keep the rows as JSON")
    given = parser.parse_args()
    print(f"{platform.processor() or platform.machine()}, {sys.version.split()[0]}")
    print(
        f"{'case':14} {'reached':>8} {'n right':>8} {'certified':>9} {'worst':>9} "
        f"{'median s':>9} {'max s':>7} {'passes':>7} {'MB':>6}"
    )
    kept: dict[str, list[dict]] = {}
    for name in given.cases or CASES:
        options, figure, bar = CASES[name]
        if "cifar10" in options:
            if given.data_dir is None:
                print(f"{name:14} skipped: give --data-dir")
                continue
            options = [*options, "--data-dir", str(given.data_dir)]
        rows = kept[name] = [trial(options, given.first_seed + i) for i in range(given.seeds)]
        # Below the threshold the bar is honesty: no certificate.
        good = sum(row[figure] <= bar if bar < float("inf") else not row["certified"] for row in rows)
        right = sum(row["n_found"] == row["n_true"] for row in rows)
        certified = sum(row["certified"] for row in rows)
        seconds = [row["seconds"] for row in rows]
        print(
            f"{name:14} {good:>5}/{len(rows):<2} {right:>5}/{len(rows):<2} {certified:>6}/{len(rows):<2} "
            f"{max(row[figure] for row in rows):9.1e} {statistics.median(seconds):9.1f} {max(seconds):7.1f} "
            f"{statistics.median(row['passes'] for row in rows):7.0f} {max(row['peak_rss_mb'] for row in rows):6.0f}",
            flush=True,
        )
        if given.out is not None:
            given.out.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
