"""Ordinary training beside torch's own loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from exhume.architectures import describe_network, initial_parameters
from exhume.errors import ExhumeError
from exhume.storage.checkpoint import Checkpoint
from exhume.victims.losses import loss_named
from exhume.victims.optimizers import OPTIMIZERS, OrdinaryState, Training, batches, train_ordinarily
from support.problems import small_sphere

SPEC = describe_network("mlp", (20,), outputs=3, last_layer=1, widths=(12, 8), bias=True)
START = initial_parameters(SPEC, seed=0, dtype=torch.float64)
X = small_sphere(d=20, n=6).rows
TARGETS = torch.nn.functional.one_hot(torch.arange(6) % 3, 3).double()


def run(training: Training, path: Path | None = None, report=lambda epoch, loss: None) -> tuple[OrdinaryState, float]:  # type: ignore[no-untyped-def]
    keeper = Checkpoint(path, {"training": training.optimizer})
    return train_ordinarily(SPEC.module(START), START, X, TARGETS, training, report=report, keeper=keeper)


def by_hand(training: Training, epochs: int) -> nn.Module:
    module = nn.Sequential(nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    module.load_state_dict(dict(zip(module.state_dict(), START.values(), strict=True)))
    rate = training.rate or training.kind.default_rate
    optimizer = training.kind.make(list(module.parameters()), rate, training.decay)
    for epoch in range(epochs):
        for some in batches(6, training.batch, training.seed, epoch):

            def closure(some: torch.Tensor = some) -> float:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(module(X[some]), TARGETS[some].argmax(1))
                loss.backward()
                return float(loss.detach())

            optimizer.step(closure)
    return module


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_is_the_loop_that_torch_users_write(name: str) -> None:
    some = {} if OPTIMIZERS[name].whole else {"batch": 4, "decay": 1e-3}
    training = Training(name, loss_named("cross-entropy"), epochs=3, **some)  # type: ignore[arg-type]
    end, loss = run(training)
    module = by_hand(training, 3)
    for value, expected in zip(end.parameters.values(), module.state_dict().values(), strict=True):
        assert torch.allclose(value, expected, atol=1e-10)
    assert loss == pytest.approx(nn.functional.cross_entropy(module(X), TARGETS.argmax(1)).item(), rel=1e-8)
    assert end.epoch == 3


def test_batches_are_all_samples_in_an_order_of_each_epoch() -> None:
    first, second = ([b.tolist() for b in batches(7, 3, 0, epoch)] for epoch in (0, 1))
    assert [len(b) for b in first] == [3, 3, 1]
    assert sorted(i for b in first for i in b) == list(range(7))
    assert first != second
    assert [len(b) for b in batches(7, None, 0, 0)] == [7]


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam"])
def test_interrupted_training_goes_on_to_the_same_weights(name: str, tmp_path: Path) -> None:
    training = Training(name, loss_named("cross-entropy"), batch=4, epochs=6)
    whole, _ = run(training)

    def stop(epoch: int, loss: float) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(training, tmp_path / "ckpt", stop)
    end, _ = run(training, tmp_path / "ckpt")
    assert all(torch.equal(value, whole.parameters[key]) for key, value in end.parameters.items())
    assert all(torch.equal(value, whole.buffers[key]) for key, value in end.buffers.items())


def test_adams_first_moment_is_among_the_buffers() -> None:
    end, _ = run(Training("adam", loss_named("cross-entropy"), epochs=1))
    assert end.buffers["exp_avg/first.weight"].shape == (12, 20)


def test_it_stops_where_the_loss_is_small_enough() -> None:
    end, _ = run(Training("momentum", loss_named("cross-entropy"), rate=0.1, epochs=500, stop_at=0.5))
    assert 1 < end.epoch < 500


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "rmsprop"}, "unknown optimizer"),
        ({"optimizer": "sgd", "batch": 0}, "--batch must be positive"),
        ({"optimizer": "sgd", "rate": -1.0}, "--lr must be positive"),
        ({"optimizer": "sgd", "epochs": 0}, "--epochs must be positive"),
        ({"optimizer": "lbfgs", "batch": 3}, "all samples at once"),
        ({"optimizer": "lbfgs", "decay": 0.1}, "no weight decay"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ExhumeError, match=message):
        Training(loss=loss_named("square"), **settings)  # type: ignore[arg-type]


def test_divergence_is_told() -> None:
    with pytest.raises(ExhumeError, match="diverged"):
        run(Training("sgd", loss_named("square"), rate=1e6, epochs=50))
