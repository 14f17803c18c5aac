"""Models of a user's own, small enough to train and audit in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from exhume import RandomFeatureMap


def patients(n: int, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
    data = load_breast_cancer()
    order = np.random.default_rng(0).permutation(len(data.data))[start : start + n]
    return data.data[order], 2.0 * data.target[order] - 1


def relu_pipeline(n: int = 12, ratio: float = 10.0, start: int = 0) -> tuple[Pipeline, np.ndarray, np.ndarray]:
    X, y = patients(n, start)
    model = make_pipeline(StandardScaler(), RandomFeatureMap(int(ratio * 30 * n)), Ridge(alpha=1e-3)).fit(X, y)
    return model, X, y


def digit_pictures(n: int, start: int = 0) -> tuple[np.ndarray, np.ndarray]:
    digits = load_digits()
    return (digits.images / 8 - 1)[start : start + n, None], digits.target[start : start + n]


def two_layer(width: int = 512, bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width, bias=bias), nn.ReLU(), nn.Linear(width, 10, bias=bias)).double()


def descend(net: nn.Module, X: np.ndarray, y: np.ndarray, *, rate: float = 2e-3, to: float = 1e-6) -> nn.Module:
    """Plain gradient descent on one-hot targets, in place."""
    inputs, targets = torch.as_tensor(X), nn.functional.one_hot(torch.as_tensor(y), 10).double()
    for _ in range(20_000):
        loss = (net(inputs) - targets).square().sum() / 2
        if loss.item() < to:
            break
        for p, g in zip(net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True):
            p.data.sub_(g, alpha=rate)
    return net


def write_npz(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    np.savez(path, X=X, y=y)
    return path
