"""gauss-newton against the paper's projection-gd: same weights, same run, both told n; error against time.

python benchmarks/against_the_paper.py [--d 100 --n 20 --ratio 4 --steps 20000 --leak 0.02]
"""

from __future__ import annotations

import argparse
import math

from exhume.attacks import GaussNewton, Progress, attack_named
from exhume.data import DataRequest, load
from exhume.knowledge import Knowledge
from exhume.score import metrics
from exhume.score.match import match
from exhume.victims import RandomFeaturesVictim


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--d", type=int, default=100)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--ratio", type=float, default=4.0)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--leak", type=float, default=0.0, help="0.02 is the published code's, 0 the paper's text")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    data = load(DataRequest("sphere", n=given.n, d=given.d, seed=given.seed))
    victim = RandomFeaturesVictim(p=round(given.ratio * given.d * given.n), seed=given.seed, knowledge=Knowledge(n=True))
    release = victim.train(data).release
    first: dict[str, float] = {}
    for attack in (GaussNewton(), attack_named("projection-gd", max_steps=given.steps, leak=given.leak)):
        print(f"\n{attack.name}\n{'seconds':>9} {'passes':>8} {'loss':>9} {'rho':>9}")
        lines: list[tuple[float, int, float, float]] = []

        def watch(now: Progress, lines: list = lines) -> None:
            error = metrics.rho(match(data.rows, now.X.cpu(), forgive_sign=True).distance, given.d)
            lines.append((now.seconds, now.passes, now.loss, error))

        attack.run(release, seed=given.seed, watch=watch)
        every = max(1, len(lines) // 12)
        for line in [*lines[::every], lines[-1]]:
            print("{:9.2f} {:8d} {:9.1e} {:9.1e}".format(*line))
        first[attack.name] = next((line[0] for line in lines if line[3] <= 0.1), math.inf)
    ours, paper = first["gauss-newton"], first["projection-gd"]
    print(f"\ntime to rho 0.1 (sign forgiven): gauss-newton {ours:.2f} s, projection-gd {paper:.1f} s, ratio {paper / ours:.0f}")


if __name__ == "__main__":
    main()
