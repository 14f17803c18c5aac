"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from support.problems import real_data


def pytest_configure() -> None:
    # Two workers share two cores; a test that starts a process must not take both of them either.
    threads = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    torch.set_num_threads(threads)


@pytest.fixture
def cifar10_file() -> Path:
    return real_data("cifar10_first100.npz")


@pytest.fixture
def tiny_imagenet_file() -> Path:
    return real_data("tiny_imagenet_pair20.npz")
