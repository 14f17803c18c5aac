"""Releases of networks whose change is written down, without any training."""

from __future__ import annotations

from dataclasses import replace

import torch

from exhume.architectures import NetworkSpec, describe_network, initial_parameters
from exhume.knowledge import Facts
from exhume.release import Release
from support.planted import drawn

MOVED_D, MOVED_WIDTH = 12, 90


def moved_network(
    *,
    k: int = 2,
    activation: str = "relu",
    known: str = "all",  # weights before training: "all", "last" or "none"
    facts: Facts | None = None,
    decay: float = 1.0,
    rank: int = 3,  # dimensions in which the first layer has moved
) -> Release:
    """A two-layer network whose weights were shrunk by a factor, and moved inside a space of few dimensions."""
    spec = replace(describe_network("two-layer", (MOVED_D,), outputs=k, last_layer=MOVED_WIDTH * k), activation=activation)
    start = initial_parameters(spec, seed=0, dtype=torch.float64)
    first = drawn(MOVED_WIDTH, rank, seed=1) @ drawn(rank, MOVED_D, seed=2) if rank else torch.zeros(MOVED_WIDTH, MOVED_D)
    change = {"first.weight": first, "head.weight": drawn(k, MOVED_WIDTH, seed=3)}
    trained = {name: decay * start[name] + 0.3 * change[name] for name in start}
    return released(spec, start, trained, known=known, facts=facts)


def moved_pictures(name: str, *, first_moves: bool = True, known: str = "all", channels: int = 1) -> Release:
    """A deeper network of 8 x 8 pictures, its layers moved at random, the first of them perhaps not."""
    spec = describe_network(name, (channels, 8, 8), outputs=1, last_layer=200)
    start, end = (initial_parameters(spec, seed=seed, dtype=torch.float64) for seed in (0, 1))
    trained = {key: start[key] + 0.1 * end[key] for key in start}
    if not first_moves:
        trained["first.weight"] = start["first.weight"].clone()
    return released(spec, start, trained, known=known, facts=None)


def released(
    spec: NetworkSpec, start: dict[str, torch.Tensor], trained: dict[str, torch.Tensor], *, known: str, facts: Facts | None
) -> Release:
    """Of the weights before training those that are known."""
    head = spec.head_weight
    initial = start if known == "all" else {head: start[head]} if known == "last" else {}
    weights = trained[head] - initial[head] if head in initial else trained[head]
    return Release(weights, spec, Facts() if facts is None else facts, trained, initial)
