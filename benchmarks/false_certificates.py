"""Does `first-layer` ever certify what is wrong? Many small networks, each attacked, each certificate held against the truth.

    python benchmarks/false_certificates.py               500 networks (about ten minutes on 2 cores)
    python benchmarks/false_certificates.py --count 50    fewer

A certificate is wrong when a row or a sample is off by more than 2%, or when the number of samples is wrong (those nearer than
2% to each other may count as one).
"""

from __future__ import annotations

import argparse
import collections
from dataclasses import replace

import torch

from exhume.attacks import attack_named
from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.linalg import streams
from exhume.release import Release
from exhume.victims import NetworkVictim

# A certificate promises rows to this share of their norm; samples nearer to each other than that may count as one.
WRONG = 0.02


def samples(generator: torch.Generator, kind: str) -> Dataset:
    """A few rows: plain, nearly the same in pairs, one a combination of others, all positive, or of unequal norms."""
    n, d = int(torch.randint(3, 11, (), generator=generator)), int(torch.randint(16, 41, (), generator=generator))
    X = torch.randn(n, d, generator=generator, dtype=torch.float64)
    if kind == "near-duplicates":
        X[1] = X[0] + 0.01 * X[1]
    if kind == "shared masks":
        X[1] = X[0] + 1e-4 * X[1]
    if kind == "positive":
        X = X.abs()
    if kind == "norms":
        X = X * torch.logspace(-1, 1, n, dtype=torch.float64)[:, None]
    labels = torch.arange(n).double() % 3
    return Dataset(kind, X, labels, "vector", torch.zeros(d), torch.ones(d), (d,))


def network(generator: torch.Generator, data: Dataset, seed: int) -> tuple[str, Release, Dataset]:
    """A network of random depth, width, optimizer, precision and noise, trained on the data."""

    def pick(*among):  # type: ignore[no-untyped-def]
        return among[int(torch.randint(len(among), (), generator=generator))]

    per_sample = pick(1.0, 2.0, 3.0, 4.0, 6.0, 6.0, 10.0, 10.0, 20.0, 20.0)
    widths = (max(2, round(per_sample * data.n)), *pick((), (12,), (16, 8)))
    optimizer = pick("gd", "sgd", "momentum", "adam", "lbfgs")
    noise = pick("none", "none", "noised", "bfloat16", "dead units")
    victim = NetworkVictim(
        "mlp",
        1,
        k=3,
        widths=widths,
        bias=pick(True, False),
        loss=pick("square", "cross-entropy"),
        optimizer=optimizer,
        batch=pick(None, 2, 3) if optimizer in ("sgd", "momentum", "adam") else None,
        lr={"gd": 0.01, "sgd": 0.05, "momentum": 0.01, "adam": 0.003, "lbfgs": None}[optimizer],
        epochs=pick(2, 10, 40),
        weight_decay=pick(0.0, 0.0, 1e-3) if optimizer in ("gd", "sgd", "momentum") else 0.0,
        dtype=pick(torch.float32, torch.float64),
        seed=seed,
        knowledge=Knowledge(optimizer=pick(True, False)),
    )
    release = victim.train(data).release
    first = release.trained["first.weight"]
    if noise == "noised":
        change = (first - release.initial["first.weight"]).norm() / first.numel() ** 0.5
        first = first + pick(1e-6, 1e-4, 1e-2) * change * torch.randn(first.shape, generator=generator).to(first)
    if noise == "bfloat16":
        first = first.bfloat16().to(first.dtype)
    if noise == "dead units":
        first = torch.where(torch.rand(len(first), 1, generator=generator) < 0.3, release.initial["first.weight"], first)
    release = replace(release, trained={**release.trained, "first.weight": first})
    return f"{optimizer}, {noise}, {data.name}", release, data


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)  # many small matrices
    attack = attack_named("first-layer", patience=4)
    outcomes, wrong = collections.Counter[str](), []
    for seed in range(given.first_seed, given.first_seed + given.count):
        generator = streams.generator(seed, "false certificates")
        kinds = ("plain", "plain", "near-duplicates", "shared masks", "positive", "norms")
        data = samples(generator, kinds[seed % len(kinds)])
        try:
            name, release, truth = network(generator, data, seed)
        except ExhumeError:
            outcomes["training diverged"] += 1
            continue
        if attack.refusal(release) is not None:
            outcomes["refused"] += 1
            continue
        guess = attack.run(release, seed=seed)
        if not guess.certified:
            outcomes["not certified"] += 1
            continue
        off = distance(truth.rows, guess.rows.double(), directions=guess.scale != "from bias")
        good = off <= WRONG and distinct(truth.rows) <= len(guess.rows) <= truth.n
        outcomes["certified and right" if good else "CERTIFIED AND WRONG"] += 1
        if not good:
            wrong.append(f"seed {seed}: {name}, {len(guess.rows)} rows for {distinct(truth.rows)}, worst {off:.2g}")
    for outcome, count in outcomes.most_common():
        print(f"{outcome:22} {count:5}")
    print("\n".join(wrong))


def distance(truth: torch.Tensor, rows: torch.Tensor, *, directions: bool) -> float:
    """The largest relative distance of a sample to its nearest row, or of a row to its nearest sample."""
    if directions:
        truth, rows = (torch.nn.functional.normalize(values, dim=1) for values in (truth, rows))
    apart = torch.cdist(truth, rows) / truth.norm(dim=1, keepdim=True)
    return max(float(apart.min(dim=1).values.max()), float(apart.min(dim=0).values.max()))


def distinct(truth: torch.Tensor) -> int:
    """Samples, where those nearer to an earlier one than a certificate can tell count once."""
    apart = torch.cdist(truth, truth) / truth.norm(dim=1, keepdim=True)
    return sum(not bool((apart[i, :i] < WRONG).any()) for i in range(len(truth)))


if __name__ == "__main__":
    main()
