"""A two-layer PyTorch network trained on 20 digits, as its owner would have it before an audit.

Run it to write digits.npz, holdout.npz, init.safetensors and trained.safetensors, then:

    exhume audit --model digits_net:make_net --init init.safetensors --trained trained.safetensors \
        --data digits.npz --holdout holdout.npz --out report/
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn

N, WIDTH, CLASSES = 20, 1024, 10


def make_net() -> nn.Module:
    """The graph; the audit fills in the weights."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))


def main(folder: Path = Path(".")) -> None:
    """Train by plain gradient descent until the labels are fitted, and write everything that an audit reads."""
    digits = load_digits()
    X, y = (digits.images / 8 - 1).astype(np.float32)[:, None], digits.target
    torch.manual_seed(0)
    net = make_net()
    save_file(net.state_dict(), folder / "init.safetensors")
    inputs, targets = torch.from_numpy(X[:N]), nn.functional.one_hot(torch.from_numpy(y[:N]), CLASSES).float()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.001)
    for _ in range(20_000):
        loss = (net(inputs) - targets).square().sum() / 2
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if loss.item() < 1e-8:
            break
    save_file(net.state_dict(), folder / "trained.safetensors")
    np.savez(folder / "digits.npz", X=X[:N], y=y[:N])
    np.savez(folder / "holdout.npz", X=X[N : N + 500], y=y[N : N + 500])
    print(f"trained to a loss of {loss.item():.1e}")


if __name__ == "__main__":
    main()
