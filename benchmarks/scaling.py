"""How cost grows: one table per case, with a picture and the environment kept beside the rows.

    python benchmarks/scaling.py product              a Gauss-Newton product and a sweep against plain GEMMs: V kept, cached, drawn
    python benchmarks/scaling.py features             time at p = 40 dn over time at p = 4 dn (sphere, d = 100, n = 50)
    python benchmarks/scaling.py processes            seconds per pass of two processes against one, one thread each
    python benchmarks/scaling.py growth               seconds, passes, memory and FLOP/s against p, d and n, both attacks
    python benchmarks/scaling.py regeneration         a step against the paper's scheme, which draws V anew for every sample
    python benchmarks/scaling.py predict              hours for larger d and n from the rate measured here and an assumed GPU
    python benchmarks/scaling.py figure1 tiny         the two large runs (half an hour each); need --data-dir

--out FOLDER keeps rows.json and a picture of each case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from exhume import __version__
from exhume.attacks.span.blockwise import BlockwiseSpan
from exhume.attacks.span.high_dimensional import HighDimensionalSpan
from exhume.attacks.span.problem import Point
from exhume.features import FeatureMemory, RandomFeatures, RandomFeaturesSpec
from exhume.parallel.team import join
from exhume.result import load_reconstruction

Row = dict[str, Any]
_EXHUME = [sys.executable, "-m", "exhume"]


def environment() -> Row:
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    return {
        "cpu": cpu or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "exhume": __version__,
        "python": platform.python_version(),
    }


def median(function: Callable[[], object], times: int = 5) -> float:
    function()
    took = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def product(given: argparse.Namespace) -> list[Row]:
    """The first 61,440 features of 3072 dimensions of Figure 1's right end (n = 100, p = 10 dn), under 10 and 100 rows."""
    rows: list[Row] = []
    d, p, whole = 3072, 61_440, 3_072_000
    bytes_of_v = 4 * d * p
    with tempfile.TemporaryDirectory(dir=given.cache) as folder:
        for m in (10, 100):
            for how, keep, spill in (("resident", 2 * bytes_of_v, None), ("cached", 0, Path(folder)), ("drawn", 0, None)):
                spec = RandomFeaturesSpec.describe(d, whole, "relu", 0)
                features = RandomFeatures(spec, dtype=torch.float32, memory=FeatureMemory(keep_bytes=keep, cache=spill))
                weights = torch.randn(1, whole, generator=torch.Generator().manual_seed(0))
                problem = HighDimensionalSpan(features, weights, radius=d**0.5, count=p)
                X = problem.on_sphere(torch.randn(m, d, generator=torch.Generator().manual_seed(1)))
                state = problem.state(Point(X))
                unknowns = (state.gradient, state.alpha, state.zeta)
                assert state.zeta is not None
                probes = torch.linalg.qr(torch.randn(d, 24, dtype=torch.float64))[0]
                V = torch.randn(p, d)
                for what, columns, ours in (
                    ("product", m + 1, lambda: problem.gauss_newton_product(state, unknowns)),  # noqa: B023
                    ("sweep", m + 25, lambda: problem.sweep(X, state.alpha, state.zeta, probes, (0, p))),  # noqa: B023
                ):
                    left, right = torch.randn(columns, d), torch.randn(p, columns)
                    took, gemm = median(ours), median(lambda: (V @ left.T, right.T @ V))  # noqa: B023
                    speed = {"seconds": took, "GEMM": gemm, "share": gemm / took, "GFLOP/s": 4 * p * d * columns / took / 1e9}
                    rows.append({"one": what, "V": how, "rows": m, **speed})
    return rows


def trial(*options: str, threads: int | None = None) -> Row:
    env = os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    command = [*_EXHUME, "trial", *options, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def features(given: argparse.Namespace) -> list[Row]:
    """Training excluded; medians over the seeds."""
    took: dict[int, list[float]] = {4: [], 40: []}
    rows: list[Row] = []
    for seed in range(given.seeds):
        for ratio in took:  # one after the other, so that a noisy machine slows both
            row = trial("--data", "sphere", "--d", "100", "--n", "50", "--ratio", str(ratio), "--seed", str(seed))
            took[ratio].append(row["seconds"])
            rows.append({"p / (d n)": ratio, "seed": seed, **{k: row[k] for k in ("seconds", "passes", "rho_signed", "status")}})
    four, forty = (statistics.median(took[ratio]) for ratio in took)
    rows.append({"p / (d n)": "40 over 4", "seconds": forty / four})
    return rows


def one_pass(given: argparse.Namespace) -> list[Row]:
    """What every process of `processes` runs: milliseconds of one Gauss-Newton product (two passes) of the team."""
    team = join("cpu")
    d, p, m = 1000, 60_000, 20
    features = RandomFeatures(
        RandomFeaturesSpec.describe(d, p, "relu", 0), dtype=torch.float32, memory=FeatureMemory(keep_bytes=10**9, team=team)
    )
    weights = features.own(torch.randn(1, p, generator=torch.Generator().manual_seed(0)))
    problem = BlockwiseSpan(features, weights, radius=d**0.5, nuisance=True)
    state = problem.state(Point(problem.on_sphere(torch.randn(m, d, generator=torch.Generator().manual_seed(1)))))
    unknowns = (state.gradient, state.alpha, state.zeta)
    took = median(lambda: problem.gauss_newton_product(state, unknowns), 20)
    team.leave()
    if team.rank == 0:
        print(json.dumps({"ms": 1e3 * took / 2}))
    sys.exit()


def processes(given: argparse.Namespace) -> list[Row]:
    """One thread in every process. A pass of a product alone, and seconds per pass of a whole run; its rows compared."""
    rows: list[Row] = []
    env = os.environ | {"OMP_NUM_THREADS": "1"}

    def started(command: list[str], count: int) -> Row:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
        first = torchrun if count > 1 else [sys.executable]
        done = subprocess.run([*first, *command], capture_output=True, text=True, check=True, env=env)
        return json.loads(done.stdout.splitlines()[-1])

    with tempfile.TemporaryDirectory() as folder:
        release = Path(folder) / "release"
        made = ["train", "--data", "sphere", "--d", "1000", "--n", "20", "--ratio", "4", "--dtype", "float64"]
        subprocess.run([*_EXHUME, *made, "--release", str(release), "--truth", f"{folder}/truth"], check=True, capture_output=True)
        found: dict[int, torch.Tensor] = {}
        for count in (1, 2):
            alone = started([__file__, "one-pass"], count)["ms"]
            run = ["-m", "exhume", "reconstruct", str(release), "--out", f"{folder}/{count}", "--json", "--quiet"]
            row = started(run, count)
            found[count] = load_reconstruction(Path(folder) / str(count)).rows
            whole = {"seconds": row["seconds"], "passes": row["passes"], "status": row["status"]}
            rows.append({"processes": count, "ms per pass": alone, **whole, "run's ms": 1e3 * row["seconds"] / row["passes"]})
        apart = float((torch.cdist(found[1], found[2]).min(dim=1).values / found[1].norm(dim=1)).max())
        ratio = {name: rows[0][name] / rows[1][name] for name in ("ms per pass", "run's ms")}
        rows.append({"processes": "1 over 2", **ratio, "rows apart": apart})
    return rows


def growth(given: argparse.Namespace) -> list[Row]:
    """Both attacks on the sphere around d = 60, n = 20, p = 5 dn; 300 steps of projection-gd."""
    rows: list[Row] = []
    shapes = (
        [("p", 60, 20, r) for r in (3, 5, 10, 20)]
        + [("d", d, 20, 5) for d in (30, 120, 240)]
        + [("n", 60, n, 5) for n in (10, 40, 80)]
    )
    for varied, d, n, ratio in shapes:
        data = ["--data", "sphere", "--d", str(d), "--n", str(n), "--ratio", str(ratio), "--dtype", "float32"]
        for attack in (["gauss-newton"], ["projection-gd", "--max-steps", "300", "--know-n"]):
            row = trial(*data, "--attack", *attack)
            flops = 2 * row["p"] * d * row["n_found"] * row["passes"]
            shape = {"varied": varied, "d": d, "n": n, "p": row["p"], "attack": attack[0]}
            cost = {"seconds": row["seconds"], "passes": row["passes"], "MB": row["peak_rss_mb"]}
            rows.append(shape | cost | {"GFLOP/s": flops / row["seconds"] / 1e9, "rho": row["rho_signed"]})
    return rows


def regeneration(given: argparse.Namespace) -> list[Row]:
    """One gradient at n = 20 rows: V drawn once for all of them, or anew for each as in the published code."""
    rows: list[Row] = []
    for d, p in ((100, 20_000), (400, 80_000), (3072, 61_440)):
        spec = RandomFeaturesSpec.describe(d, p, "relu", 0)
        weights = torch.randn(1, p, generator=torch.Generator().manual_seed(0))
        X = torch.randn(20, d, generator=torch.Generator().manual_seed(1))
        together = BlockwiseSpan(RandomFeatures(spec, dtype=torch.float32), weights, radius=d**0.5, nuisance=False)

        def fresh() -> BlockwiseSpan:
            return BlockwiseSpan(RandomFeatures(spec, dtype=torch.float32), weights, radius=d**0.5, nuisance=False)  # noqa: B023

        ours = median(lambda: together.state(Point(X)), 3)  # noqa: B023
        theirs = median(lambda: [fresh().state(Point(x[None])) for x in X], 1)  # noqa: B023
        rows.append({"d": d, "p": p, "together s": ours, "sample by sample s": theirs, "times": theirs / ours})
    return rows


def predict(given: argparse.Namespace) -> list[Row]:
    """p = 10 dn; --sweeps over a window, about as many as in the large runs; states of 3 dn features at the end; V is at hand."""
    V, left = torch.randn(61_440, 3072), torch.randn(3072, 104)
    here = 2 * V.numel() * left.shape[1] / median(lambda: V @ left) / 1e12
    rows: list[Row] = []
    for d, n, gpus in ((3072, 100, 1), (12_288, 20, 1), (150_528, 1_000, 64), (150_528, 10_000, 1024), (150_528, 100_000, 8192)):
        window = d * max(n, min(64, 1.5 * n))
        columns = n + 1 + 4 + max(min(20, 0.5 * n), 0.2 * n)  # rows, linear part, probes
        shared = given.sweeps * 2.0 * window * (2 * d * columns + n * n)  # two GEMMs, and the rows' Gram
        alone = given.sweeps * 40 * 14.0 * d * n * n  # the solve with the expected curvature, which every process repeats
        sums = given.sweeps * (4.0 * d * columns + 8 * n * n)  # bytes that every process sends and receives
        rows.append(
            {
                "d": d,
                "n": n,
                "flop": shared + alone,
                "hours here": (shared + alone) / here / 1e12 / 3600,
                "GPUs": gpus,
                "hours there": (shared / gpus + alone) / given.gpu_tflops / 1e12 / 3600,
                "of it the solve": alone / (shared / gpus + alone),
                "GB sent": 2 * sums / 1e9,
                "GB of states": 4 * 3.0 * d * n * n * 4 / 1e9,
            }
        )
    return rows


def large(given: argparse.Namespace, data: list[str]) -> list[Row]:
    if given.data_dir is None:
        sys.exit("the large runs need --data-dir")
    options = [*data, "--dtype", "float32", "--ratio", "10", "--memory", given.memory, "--data-dir", str(given.data_dir)]
    cache = [] if given.cache is None else ["--cache", str(given.cache)]
    row = trial(*options, *cache)
    keep = ("p", "seconds", "passes", "n_found", "rho_signed", "status", "peak_rss_mb")
    return [{k: row[k] for k in keep}]


CASES: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    "product": product,
    "features": features,
    "processes": processes,
    "growth": growth,
    "regeneration": regeneration,
    "predict": predict,
    "one-pass": one_pass,
    "figure1": lambda given: large(given, ["--data", "cifar10", "--n", "100"]),
    "tiny": lambda given: large(given, ["--data", "tiny-imagenet", "--n", "20"]),
}


def show(rows: list[Row]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    entries = [[f"{v:.3g}" if isinstance(v := row.get(c, ""), float) else str(v) for c in columns] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in entries)) for i, c in enumerate(columns)]
    for line in [columns, *entries]:
        print("  ".join(entry.rjust(width) for entry, width in zip(line, widths, strict=True)))


def picture(name: str, rows: list[Row], path: Path) -> None:
    """Bars of the case's first number against its first words."""
    fields = ("share", "ms per pass", "times", "hours there", "seconds")
    field = next(f for f in fields if any(isinstance(row.get(f), float) for row in rows))
    shown = [row for row in rows if isinstance(row.get(field), float)]
    figure = Figure(figsize=(7, 0.4 * len(shown) + 1.2), layout="constrained")
    axes = figure.add_subplot()
    labels = ["  ".join(f"{k} {v}" for k, v in list(row.items())[:5] if not isinstance(v, float)) for row in shown]
    places = range(len(shown))[::-1]
    axes.barh(places, [row.get(field, 0.0) for row in shown], color="#1f5fa8", height=0.6)
    axes.set_yticks(places, labels, fontsize=8)
    axes.set_xlabel(
        {"share": "share of plain GEMMs", "hours there": "hours on these GPUs, at the rate assumed for one"}.get(field, field)
    )
    if field == "hours there":
        axes.set_xscale("log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{name}: {environment()['cpu']}, {environment()['cores']} cores", fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--memory", default="9GB")
    parser.add_argument("--cache", type=Path, help="folder for V where memory does not hold it")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sweeps", type=int, default=200, help="predict: sweeps of a whole run")
    parser.add_argument("--gpu-tflops", type=float, default=50.0, help="predict: what one GPU is assumed to sustain, float32")
    given = parser.parse_args()
    if given.cases != ["one-pass"]:
        print(environment())
    for name in given.cases:
        rows = CASES[name](given)
        print(f"\n{name}: {(CASES[name].__doc__ or '').strip()}")
        show(rows)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"{name}.json").write_text(json.dumps({"environment": environment(), "rows": rows}, indent=1))
            picture(name, rows, given.out / f"{name}.png")


if __name__ == "__main__":
    main()
