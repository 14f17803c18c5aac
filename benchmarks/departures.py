"""What the published code does differently from the paper's text, and what each of these does to the result.

    python benchmarks/departures.py [--steps 2000] [--cifar10 PATH]

Sphere data, d=30, n=20, p=10dn, seed 0, float32; the first three need no data.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from exhume.attacks import attack_named
from exhume.data import DataRequest, Dataset, load
from exhume.features import FeatureMemory, activation
from exhume.knowledge import Knowledge
from exhume.lab import Trial, run_trial, train_victim
from exhume.linalg import streams
from exhume.score.match import match


def error(truth: torch.Tensor, guess: torch.Tensor, *, absolute: bool) -> float:
    """Mean distance over sqrt(d) after the best matching; `absolute` compares |pixel| with |pixel|, as the code does."""
    if absolute:
        truth, guess = truth.abs(), guess.abs()
    rows = match(truth, guess, forgive_sign=not absolute).rows(guess)
    return float((truth - rows).norm(dim=1).mean() / truth.shape[1] ** 0.5)


def descent(data: Dataset, steps: int, *, true_slopes: bool) -> float:
    """projection-gd on relu+tanh; the slopes of the gradient from the candidates, or from the true rows as in the code."""
    trial = Trial(DataRequest("sphere", n=data.n, d=data.d), ratio=10.0, activation="relu+tanh", dtype="float32")
    release = train_victim(trial, data).release
    V = torch.cat([block.V for block in release.fixed_features(FeatureMemory()).blocks()])
    theta, act, radius = release.weights[0], activation("relu+tanh"), data.d**0.5
    X = streams.random_directions(data.n, data.d, seed=0, purpose="rows").float() * radius
    speed, energy = torch.zeros_like(X), float(theta @ theta)
    for _ in range(steps):
        Phi = act.value(X @ V.T)
        alpha = torch.linalg.solve(Phi @ Phi.T, Phi @ theta)
        residual = theta - Phi.T @ alpha
        slopes = act.slope((data.rows.float() if true_slopes else X) @ V.T)
        speed = 0.9 * speed + 2 / energy * (alpha[:, None] * (slopes * residual)) @ V
        X = X + 20.0 * speed
        X = X * (radius / X.norm(dim=1, keepdim=True))
    return error(data.rows, X.double(), absolute=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--cifar10", type=Path)
    given = parser.parse_args()
    data = load(DataRequest("sphere", n=20, d=30))
    noise = streams.random_directions(20, 30, seed=7, purpose="noise") * 30**0.5
    print("metric: score of pure noise, where 0 is perfect")
    for name, absolute in (("sign forgiven per sample (Eq. 12)", False), ("absolute value per pixel (code)", True)):
        print(f"  {name:40} {error(data.rows, noise, absolute=absolute):.3f}")
    print(f"slope of a flat ReLU in the gradient: error of projection-gd after {given.steps} steps")
    for name, leak in (("0 (the derivative)", 0.0), ("0.02 (code)", 0.02)):
        attack = attack_named("projection-gd", max_steps=given.steps, leak=leak)
        row = run_trial(
            Trial(DataRequest("sphere", n=20, d=30), ratio=10.0, dtype="float32", knowledge=Knowledge(n=True), attack=attack)
        ).row()
        print(f"  {name:40} {row['rho']:.3f}")
    print(f"slopes of relu+tanh in the gradient: error of projection-gd after {given.steps} steps")
    for name, true_slopes in (("at the candidates", False), ("at the true rows (code: truth leaks in)", True)):
        print(f"  {name:40} {descent(data, given.steps, true_slopes=true_slopes):.3f}")
    if given.cifar10 is None:
        print("norms of CIFAR-10 inputs: give --cifar10")
        return
    rows = load(DataRequest("cifar10", n=100, data_dir=given.cifar10)).rows
    ratio = rows.norm(dim=1) / rows.shape[1] ** 0.5
    at_sphere = rows / ratio[:, None]
    print("norms of standardised CIFAR-10 inputs over sqrt(d), which every candidate of the paper has")
    print(f"  {'least, median, largest of 100':40} {ratio.min():.2f}, {ratio.median():.2f}, {ratio.max():.2f}")
    print(
        f"  {'error left with every direction exact':40} {float((rows - at_sphere).norm(dim=1).mean() / rows.shape[1] ** 0.5):.3f}"
    )


if __name__ == "__main__":
    main()
