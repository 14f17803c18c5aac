"""Victims that train in milliseconds, and where the real data lie."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
import torch

from exhume.attacks.span.problem import Point, Span, State
from exhume.data import DataRequest, Dataset, load
from exhume.release import Release
from exhume.victims import NetworkVictim, RandomFeaturesVictim, Trained

FILES = Path(__file__).parents[1] / "files"
REAL_DATA = Path(os.environ.get("EXHUME_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


@cache
def small_sphere(*, d: int = 20, n: int = 5, seed: int = 0) -> Dataset:
    return load(DataRequest("sphere", n=n, d=d, seed=seed))


def trained(
    dataset: Dataset, *, ratio: float = 6.0, activation: str = "relu", dtype: torch.dtype = torch.float64, **settings: object
) -> Release:
    """The release of random features on a dataset."""
    p = round(ratio * dataset.d * dataset.n)
    victim = RandomFeaturesVictim(p=p, activation=activation, dtype=dtype, **settings)  # type: ignore[arg-type]
    return victim.train(dataset).release


def two_layer(data: Dataset, ratio: float, **settings: object) -> Trained:
    """A two-layer network trained to interpolation."""
    return NetworkVictim("two-layer", round(ratio * data.d * data.n), **settings).train(data)  # type: ignore[arg-type]


def state_at(problem: Span, X: torch.Tensor) -> State:
    """The problem at these rows."""
    return problem.state(Point(X))


def real_data(name: str) -> Path:
    """A file of real data; the test is skipped where it is not there."""
    path = REAL_DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there; set EXHUME_TEST_DATA to a folder that has it")
    return path
