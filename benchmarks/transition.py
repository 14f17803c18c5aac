"""Share of seeds in which gauss-newton rebuilds and certifies every row, against p / (d n): the table behind `exhume law`.

python benchmarks/transition.py [--seeds 10] [--ratios 1.25 1.5 1.75 2 3 4]
"""

from __future__ import annotations

import argparse

from exhume.data import DataRequest
from exhume.lab import Trial, run_trial


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ratios", type=float, nargs="+", default=[1.25, 1.5, 1.75, 2.0, 3.0, 4.0])
    parser.add_argument("--activation", default="relu")
    given = parser.parse_args()
    print(f"{'ratio':>6} {'rebuilt':>8} {'false certificates':>19} {'median passes':>14}")
    for ratio in given.ratios:
        rows = []
        for seed in range(given.seeds):
            trial = Trial(
                DataRequest("sphere", n=20, d=100, seed=seed), ratio=ratio, seed=seed, dtype="float64", activation=given.activation
            )
            rows.append(run_trial(trial).row())
        good = sum(row["certified"] and row["n_found"] == 20 and row["rho"] < 1e-2 for row in rows)
        false = sum(row["certified"] and row["rho"] >= 1e-2 for row in rows)
        passes = sorted(row["passes"] for row in rows)[len(rows) // 2]
        print(f"{ratio:6.2f} {good:>5}/{len(rows):<2} {false:>19} {passes:>14}", flush=True)


if __name__ == "__main__":
    main()
