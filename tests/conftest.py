"""Shared fixtures: small problems with known answers, and real data where it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from exhume.data import DataRequest, Dataset, load
from exhume.release import Release
from exhume.victims import RandomFeaturesVictim, train_random_features

REAL_DATA = Path(os.environ.get("EXHUME_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_configure() -> None:
    torch.set_num_threads(2)


def small_sphere(*, d: int = 20, n: int = 5, seed: int = 0) -> Dataset:
    return load(DataRequest("sphere", n=n, d=d, seed=seed))


def trained(
    dataset: Dataset, *, ratio: float = 6.0, activation: str = "relu", dtype: torch.dtype = torch.float64, **settings: object
) -> Release:
    p = round(ratio * dataset.d * dataset.n)
    victim = RandomFeaturesVictim(p=p, activation=activation, dtype=dtype, **settings)  # type: ignore[arg-type]
    return train_random_features(victim, dataset).release


def real_data(name: str) -> Path:
    path = REAL_DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there; set EXHUME_TEST_DATA to a folder that has it")
    return path


@pytest.fixture
def cifar10_file() -> Path:
    return real_data("cifar10_first100.npz")


@pytest.fixture
def tiny_imagenet_file() -> Path:
    return real_data("tiny_imagenet_pair20.npz")
