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


@pytest.fixture
def cifar10_file() -> Path:
    path = REAL_DATA / "cifar10_first100.npz"
    if not path.exists():
        pytest.skip(f"no CIFAR-10 extract at {path}; set EXHUME_TEST_DATA to a folder that has one")
    return path


@pytest.fixture
def tiny_imagenet_file() -> Path:
    path = REAL_DATA / "tiny_imagenet_pair20.npz"
    if not path.exists():
        pytest.skip(f"no Tiny-ImageNet extract at {path}; set EXHUME_TEST_DATA to a folder that has one")
    return path
